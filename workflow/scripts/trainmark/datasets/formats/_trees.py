"""Helpers of formats of image files: unpacking archives, and listing the images in class folders."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainmark.datasets.archives import unpack
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError
from trainmark.files.checksums import Checksum
from trainmark.files.whole import write_text

TEST_FOLDERS = ("val", "test")
"""Names that the folder of test images may have."""

SPLIT_NAME = re.compile(r"(train|val|valid|test)(ing|idation)?([-_ ]?(images?|set|data))?|eval(uation)?", re.IGNORECASE)
"""Names of folders that look like a split."""

OF_WINDOWS = ("Thumbs.db", "desktop.ini")
"""Files that Windows adds to folders of photographs."""

MARK = ".unpacked"
"""Suffix of a file with the checksum of an archive whose unpacking was started or finished."""


def unpack_into(folders: Folders, file: Mapping, into: str = "", nested: bool = False) -> Path:
    """Unpack an archive of the entry into a folder of `folders.unpacked`; return that folder.

    Existing files are kept and missing ones are restored. Raises DataError if another archive of this name was unpacked
    there: its files would stay among the new ones.
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
    """Raise DataError if an archive was unpacked that the entry no longer has: its files would stay."""
    unpacked = {path.name.removesuffix(MARK).removeprefix(".") for path in folders.unpacked.glob(f".*{MARK}")}
    if others := sorted(unpacked - {file["name"] for file in files}):
        raise DataError(
            f"{folders.unpacked} holds {others[0]}, which the entry no longer has; delete {folders.unpacked} and run "
            "snakemake again"
        )


def own_folder(entry: Mapping) -> Path:
    """The user's own folder of an entry. Raises DataError if it cannot be read."""
    folder = Path(os.path.expanduser(entry["folder"]))
    if not (os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)):
        raise DataError(f"{folder}, the `folder` of {entry['title']}, does not exist or cannot be read")
    return folder


def top_folder(folders: Folders, entry: Mapping) -> Path:
    """The folder that holds the images of an entry: the user's own, or that of its archives, which are unpacked."""
    if "folder" in entry:
        return own_folder(entry)
    expect_only(folders, entry["files"])
    for file in entry["files"]:
        unpack_into(folders, file)
    return folders.unpacked


def is_divided(root: Path) -> bool:
    """Whether a folder holds training and test images in folders of their own. Raises DataError if that is unclear.

    A lone folder train could be half of a dataset or a class of that name, and Training a split or a class.
    """
    splits = [name for name in _names(root) if SPLIT_NAME.fullmatch(name)]
    if "train" in splits and set(TEST_FOLDERS) & set(splits):
        return True
    if splits:
        raise DataError(
            f"{root} holds a folder {splits[0]}, which may be a class or a split; allowed: train beside val or test, "
            "with a folder for each class in them, or folders of classes under other names"
        )
    return False


def class_names_in(root: Path) -> list[str]:
    """Names of the class folders in a folder that is not divided into splits. Raises DataError if they may be others.

    Folders that hold no image themselves, and all the same folders, are the splits of a dataset or its years.
    """
    class_names = _names(root)
    inner = [set(_names(root / name)) for name in class_names]
    for name, folders in zip(class_names, inner, strict=True):
        if "train" in folders and folders & set(TEST_FOLDERS):
            raise DataError(f"{root} holds {name}, which holds train and val or test; give the entry `root: {name}`")
    if len(class_names) < 2:
        found = f"only the folder {class_names[0]}" if class_names else "no folder"
        raise DataError(
            f"{root} holds {found}; it must hold a folder train and a folder val or test, with a folder for each class "
            "in them, or a folder for each of two or more classes"
        )
    if set.intersection(*inner) and all(path.is_dir() for name in class_names for path in _visible(root / name)):
        raise DataError(
            f"{root}: {', '.join(class_names[:3])} all hold a folder {min(set.intersection(*inner))} and no image; "
            "it is unclear which folders are classes; rename splits to train and val, or put images right into the "
            "folder of their class"
        )
    return class_names


def class_folders(root: Path) -> tuple[dict[str, Path], list[str]]:
    """({"train", "test": folder}, class names) of a root that holds train/<class>/ and val/<class>/ (or test/).

    Classes are numbered in the order of their names. Raises DataError if a folder is missing, or if the test images
    have a class without training images.
    """
    test = next((root / name for name in TEST_FOLDERS if (root / name).is_dir()), None)
    if not (root / "train").is_dir() or test is None:
        raise DataError(
            f"{root} must hold a folder train and a folder val or test, with a folder for each class in them"
        )
    splits = {"train": root / "train", "test": test}
    class_names, test_names = _names(splits["train"]), _names(test)
    if not class_names:
        raise DataError(f"{root / 'train'} holds no folder; each class of images needs one")
    if unknown := sorted(set(test_names) - set(class_names)):
        raise DataError(f"{test} has the class {unknown[0]}, which {root / 'train'} lacks; both need the same classes")
    return splits, class_names


def list_images(root: Path, split: Path, class_names: Iterable[str]) -> list[tuple[str, int]]:
    """(path relative to `root`, label) of every file in the class folders of a split, in the order of their names.

    Hidden files and those that Windows adds are skipped, and links are followed. Raises DataError if a class has no
    file, if a folder cannot be read or contains itself through a link, or if a file name cannot stand on a line of a
    list.
    """
    entries = []
    for label, name in enumerate(class_names):
        files = list(_files_below(split / name)) if (split / name).is_dir() else []
        if not files:
            raise DataError(f"{split / name} holds no image; every class needs some in {split.name}")
        entries += [(checked_name(path.relative_to(root).as_posix(), split), label) for path in files]
    return entries


def checked_name(name: str, where: Path) -> str:
    """Return a path that can stand on a line of a list in UTF-8. Raises DataError if it cannot."""
    if not name.isprintable():  # line breaks, and bytes that are no UTF-8
        raise DataError(f"{where}: the file name {name!r} has characters that cannot stand in a list; rename it")
    return name


def _names(folder: Path) -> list[str]:
    return [path.name for path in _visible(folder) if path.is_dir()]


def _files_below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """All files in a folder and the folders below it, of any kind: what cannot be decoded is sorted out later."""
    real = folder.resolve()
    if real in above:
        raise DataError(f"{folder} is a link to {real}, which contains it; remove the link")
    for path in _visible(folder):
        if path.is_dir():
            yield from _files_below(path, (*above, real))
        else:
            yield path


def _visible(folder: Path) -> list[Path]:
    """Files and folders in a folder in the order of their names, without hidden ones and those that Windows adds."""
    try:
        return sorted(path for path in folder.iterdir() if path.name[0] != "." and path.name not in OF_WINDOWS)
    except OSError as error:
        raise DataError(f"{folder} can't be read ({error.strerror}); its images are needed") from error
