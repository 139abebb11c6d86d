"""What a catalogue entry says about a dataset: format, kind and shape of the samples.

Each format is a module in `formats`, named like it, with a FORMAT table and a function `read(folders, entry)` that
returns Arrays or ImageLists. FORMAT is a table of literals, so that it can be read without importing the module:

kind: what the dataset is once it is prepared, a key of KINDS.
required: keys that an entry of this format needs; "files|folder" means one of the two.
optional: other keys that it may have, besides COMMON_KEYS and those of the kind.
own_files: pattern of the files that a `folder` of the user's own holds, where Snakemake is to notice that they changed.
It may be left out; the files that `lists` names are noticed in any format.
unpickles: whether reading a file may run a program in it, so that its entry must name the SHA-256. It may be left out.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainmark.files.literals import made_of, read_literal
from trainmark.files.system_files import is_added_by_system, own_paths

SPLITS = ("train", "test")

STORED_SIDE = 256
"""Height and width in pixels to which image files are resized: 256x256 as in the original ImageNet recipes."""

KINDS = {
    "images": ("image_shape",),
    "image_lists": ("packed", "unreadable_share"),
    "tokens": ("sequence_length", "vocabulary_size"),
    "subset": ("packed",),
}
"""Kinds of prepared datasets, each with the keys that an entry of this kind may have.

images: for each split an array of uint8 images (samples, channels, height, width).
image_lists: for each split a list of image files.
tokens: for each split an array of int32 token ids (samples, length).
subset: the kind of the dataset that the classes are taken from.
"""

COMMON_KEYS = ("title", "format", "classes", "samples")


def store_file(folder: Path, split: str) -> Path:
    """Return the file of a split in the folder of a packed store."""
    return folder / f"{split}.npy"


@dataclass(frozen=True)
class Format:
    """The FORMAT table of one format."""

    name: str
    kind: str
    required: Sequence[str]
    optional: Sequence[str]
    own_files: str | None = None
    unpickles: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """All keys that an entry of this format may have."""
        required = [key for keys in self.required for key in keys.split("|")]
        return tuple(dict.fromkeys((*COMMON_KEYS, *required, *self.optional, *KINDS[self.kind])))


@cache
def known_formats() -> dict[str, Format]:
    """The formats that have a module in `formats`, by name."""
    paths = own_paths(Path(__file__).parent / "formats", "[!_]*.py")
    return {
        path.stem: made_of(Format, read_literal(path, "FORMAT"), f"FORMAT in {path.name}", name=path.stem)
        for path in paths
    }


def kind_of(name: str, catalogue: Mapping) -> str:
    """Kind of a dataset of a checked catalogue: a key of KINDS other than "subset"."""
    kind = known_formats()[catalogue[name]["format"]].kind
    return kind_of(catalogue[name]["of"], catalogue) if kind == "subset" else kind


def sample_shape(name: str, catalogue: Mapping) -> tuple[int, ...]:
    """Shape of one stored sample: (channels, height, width) of an image, (length,) of token ids."""
    entry = catalogue[name]
    if "of" in entry:
        return sample_shape(entry["of"], catalogue)
    if kind_of(name, catalogue) == "image_lists":
        return (3, STORED_SIDE, STORED_SIDE)
    return tuple(entry["image_shape"]) if "image_shape" in entry else (entry["sequence_length"],)


def vocabulary_size(name: str, catalogue: Mapping) -> int:
    """Number of token ids of a dataset of texts; 0 for images."""
    entry = catalogue[name]
    return vocabulary_size(entry["of"], catalogue) if "of" in entry else entry.get("vocabulary_size", 0)


def images_folder(entry: Mapping) -> Path | None:
    """The user's own folder of images of a dataset; None if it has none, or holds arrays (`own_files`)."""
    if "folder" not in entry or known_formats()[entry["format"]].own_files:
        return None
    folder = Path(os.path.expanduser(entry["folder"]))
    return folder if folder.is_dir() else None


def own_files(name: str, catalogue: Mapping) -> list[str]:
    """The array files and lists in the user's own folder of a dataset, for Snakemake to notice that they changed.

    Empty for other datasets, and where there is no such folder: preparing then says what is missing.
    """
    entry = catalogue[name]
    if "folder" not in entry:
        return []
    folder = Path(os.path.expanduser(entry["folder"]))
    pattern = known_formats()[entry["format"]].own_files
    lists = [folder / os.path.expanduser(file) for file in entry.get("lists", {}).values()]
    return sorted(
        str(path)
        for path in (*(folder.glob(pattern) if pattern else ()), *lists)
        if path.is_file() and not is_added_by_system(path.name)
    )
