"""Image files in lists of `<path> <label>` lines, one list for each split; of archives or the user's own.

Labels count from 0 and have no gap. Paths start at `folder`, at `root` below it, or at the folder of their list in
`roots` below that, or are absolute and lead there. The lists' own paths start at `folder` unless they are absolute.
"""

import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from unicodedata import normalize

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.formats._trees import checked_name, top_folder
from trainmark.datasets.images.lists import ImageList, read_list
from trainmark.datasets.samples import Folders, ImageLists, class_names_of, expect_each_class
from trainmark.errors import DataError, expect_damage

FORMAT = {"kind": "image_lists", "required": ["files|folder", "lists"], "optional": [
    "root", "roots", "class_names", "encoding",
]}  # fmt: skip


def read(folders: Folders, entry: Mapping) -> ImageLists:
    """Read the lists. Raises DataError, with the list and the line, if an image or a label is not right."""
    top = top_folder(folders, entry)
    root = top / entry.get("root", "")
    files = {split: top / os.path.expanduser(entry["lists"][split]) for split in SPLITS}
    below = entry.get("roots", {})
    splits = {split: _checked(file, below.get(split, ""), root) for split, file in files.items()}
    _check_one_label(files, splits)
    labels = [[label for _, label in entries] for entries in splits.values()]
    names = class_names_of({"classes": 1 + max(chain(*labels), default=-1), **entry})
    expect_each_class(files["train"], labels, len(names))
    return ImageLists(root, splits, names)


def _checked(file: Path, below: str, root: Path) -> ImageList:
    """The entries of a list, with paths relative to `root`. Raises DataError if one leads elsewhere or to no image.

    below: where the list's paths start, below `root`.
    """
    return [
        (_checked_path(os.path.join(below, checked_name(name, file)), root, f"{file}, line {number}"), label)
        for number, (name, label) in enumerate(read_list(file), 1)
    ]


def _checked_path(name: str, root: Path, where: str) -> str:
    """Judge an absolute path, and one with `..`, by where it really leads; other paths may follow the user's links.

    Where no file has the path, a backslash in it is a slash (Windows), and its letters may be in another form (macOS).
    """
    path = Path(name if os.path.isfile(root / name) else name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        real, real_root = Path(os.path.realpath(root / path)), os.path.realpath(root)
        if not real.is_relative_to(real_root):
            raise DataError(f"{where}: {name} leads out of {root}, where paths start, to {real}")
        path = real.relative_to(real_root)
    for form in ("NFC", "NFD"):
        path = path if os.path.isfile(root / path) else Path(normalize(form, str(path)))
    if not os.path.isfile(root / path):
        try:
            os.stat(root / path)
        except OSError as error:
            expect_damage(error, root / path)
        raise DataError(f"{where}: there is no image {root / name}; correct the line, or the `root` of the entry")
    return path.as_posix()


def _check_one_label(files: Mapping[str, Path], splits: Mapping[str, ImageList]) -> None:
    """Raise DataError if an image has two labels. Twice the same label may be meant: it gives an image more weight."""
    labels: dict[str, int] = {}
    for split, entries in splits.items():
        for number, (path, label) in enumerate(entries, 1):
            if labels.setdefault(path, label) != label:
                raise DataError(
                    f"{files[split]}, line {number}: {path} has the label {label}, and {labels[path]} on a line above "
                    "or in the other list; each image needs one label"
                )
