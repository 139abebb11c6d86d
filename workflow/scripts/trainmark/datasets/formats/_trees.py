"""What formats of image files share: unpacked archives, and the images found in folders named like classes."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainmark.datasets.archives import unpack
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError
from trainmark.files.checksums import Checksum
from trainmark.files.whole import write_text

TEST_FOLDERS = ("val", "test")
"""What the folder of test images may be called."""

MARK = ".unpacked"
"""Ending of a file with the checksum of an archive that was unpacked, or begun to be."""


def unpack_into(folders: Folders, file: Mapping, into: str = "", nested: bool = False) -> Path:
    """Unpack an archive of the entry into a folder of `folders.unpacked`; return that folder.

    What is there already is kept, and what is missing of it is put back. Raises DataError where another archive of this
    name was unpacked there: its files would stay among the new ones.
    """
    target = folders.unpacked / into
    mark = folders.unpacked / f".{file['name']}{MARK}"
    digest = Checksum.from_catalogue(file).digest
    if mark.is_file() and mark.read_text() != digest:
        raise DataError(f"{target} holds an earlier {file['name']}; delete {folders.unpacked} and run snakemake again")
    write_text(mark, digest)
    unpack(folders.raw / file["name"], target, nested=nested)
    return target


def expect_only(folders: Folders, files: Iterable[Mapping]) -> None:
    """Raise DataError where an archive was unpacked that the entry no longer has: its files would stay."""
    unpacked = {path.name.removesuffix(MARK).removeprefix(".") for path in folders.unpacked.glob(f".*{MARK}")}
    if others := sorted(unpacked - {file["name"] for file in files}):
        raise DataError(
            f"{folders.unpacked} holds {others[0]}, which the entry no longer has; delete {folders.unpacked} and run "
            "snakemake again"
        )


def own_folder(entry: Mapping) -> Path:
    """The user's own folder of an entry. Raises DataError where there is none."""
    folder = Path(os.path.expanduser(entry["folder"]))
    if not (os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)):
        raise DataError(f"{folder}, the `folder` of {entry['title']}, is no folder that can be read from here")
    return folder


def class_folders(root: Path) -> tuple[dict[str, Path], list[str]]:
    """({"train", "test": folder}, class names) of a root that holds train/<class>/ and val/<class>/ (or test/).

    Classes are numbered in the order of their names. Raises DataError where a folder is missing or the test images
    have a class that is not trained on.
    """
    test = next((root / name for name in TEST_FOLDERS if (root / name).is_dir()), None)
    if not (root / "train").is_dir() or test is None:
        raise DataError(
            f"{root} must hold a folder train and a folder val or test, with a folder for each class in them"
        )
    splits = {"train": root / "train", "test": test}
    class_names, tested = _names(splits["train"]), _names(test)
    if not class_names:
        raise DataError(f"{root / 'train'} holds no folder; each class of images needs one")
    if unknown := sorted(set(tested) - set(class_names)):
        raise DataError(f"{test} has the class {unknown[0]}, which {root / 'train'} lacks; both need the same classes")
    return splits, class_names


def list_images(root: Path, split: Path, class_names: Iterable[str]) -> list[tuple[str, int]]:
    """(path from `root`, label) of every file in the class folders of a split, in the order of their names.

    Hidden files are passed over, links are followed. Raises DataError where a class has no file, a folder can't be
    read or holds itself, or a name does not fit on a line.
    """
    entries = []
    for label, name in enumerate(class_names):
        found = list(_files_below(split / name)) if (split / name).is_dir() else []
        if not found:
            raise DataError(f"{split / name} holds no image; every class needs some in {split.name}")
        entries += [(checked_name(path.relative_to(root).as_posix(), split), label) for path in found]
    return entries


def checked_name(name: str, where: Path) -> str:
    """A path that fits on a line of a list in UTF-8. Raises DataError where it does not."""
    if not name.isprintable():  # line breaks, and bytes that are no UTF-8
        raise DataError(f"{where}: the file name {name!r} has characters that a list can't hold; rename the file")
    return name


def _names(folder: Path) -> list[str]:
    return [path.name for path in _shown(folder) if path.is_dir()]


def _files_below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Everything in a folder and its folders that is no folder; what can't be decoded is found out later."""
    real = folder.resolve()
    if real in above:
        raise DataError(f"{folder} is a link to {real}, which holds it; remove the link")
    for path in _shown(folder):
        if path.is_dir():
            yield from _files_below(path, (*above, real))
        else:
            yield path


def _shown(folder: Path) -> list[Path]:
    """What is not hidden in a folder, by name."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} can't be read ({error.strerror}); its images are needed") from error
