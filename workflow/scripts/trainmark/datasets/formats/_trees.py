"""Helpers of formats of image files: unpacking archives, and listing the images in class folders."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from unicodedata import normalize

from trainmark.console import CONTROLS, say_when_long
from trainmark.datasets.archives import unpack
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError, why
from trainmark.files.checksums import expected_checksum
from trainmark.files.system_files import is_added_by_system
from trainmark.files.whole import write_text

TEST_FOLDERS = ("val", "test")
"""Names that the folder of test images may have."""

SPLIT_NAME = re.compile(
    r"(train|trn|val|valid|test|tst|dev|eval)(ing|idation|elopment|uation)?([-_ ]?(images?|set|data|split|\d+))?",
    re.IGNORECASE,
)
"""Names of folders that look like a split."""

Classes = dict[str, Path]
"""The folder of each class, by its name in Unicode's normal form NFC and in the order of these names.

macOS writes names in another form than Linux and Windows do.
"""

MARK = ".unpacked"
"""File with the encoding and the checksums of the archives, written when all of them are unpacked."""


def unpacked(
    folders: Folders,
    files: Sequence[Mapping],
    into: Mapping[str, str] = MappingProxyType({}),
    encoding: str | None = None,
) -> Path:
    """Unpack archives of the entry into an empty folder, unless that is done; return it.

    into: by name of an archive, the folder below it; archives in the folder "train" hold an archive for each class.
    encoding: that of names that are not UTF-8.
    """
    mark = folders.unpacked / MARK
    checksums = json.dumps([encoding, *(expected_checksum(file) for file in files)])
    if not mark.is_file() or mark.read_text() != checksums:
        if folders.unpacked.exists():
            shutil.rmtree(folders.unpacked)
        for file in files:
            below = into.get(file["name"], "")
            with say_when_long(f"unpacking {file['name']}"):
                target = folders.unpacked / below
                unpack(folders.raw / file["name"], target, nested=below == "train", encoding=encoding)
        write_text(mark, checksums)
    return folders.unpacked


def own_folder(entry: Mapping) -> Path:
    """The user's own folder of an entry. Raises DataError if it cannot be read."""
    folder = Path(os.path.expanduser(entry["folder"]))
    try:
        os.scandir(folder).close()
    except OSError as error:
        said = why(error, "name one that is there")
        raise DataError(f"{folder}, the `folder` of {entry['title']}, can't be read {said}") from error
    return folder


def top_folder(folders: Folders, entry: Mapping) -> Path:
    """The folder that holds the images of an entry: the user's own, or that of its archives, which are unpacked."""
    if "folder" in entry:
        return own_folder(entry)
    return unpacked(folders, entry["files"], encoding=entry.get("encoding"))


def is_divided(root: Path) -> bool:
    """Whether a folder holds training and test images in folders of their own. Raises DataError if that is unclear.

    A lone folder train could be half of a dataset or a class of that name, and Training a split or a class.
    """
    splits = [name for name in _names(root) if SPLIT_NAME.fullmatch(name)]
    if "train" in splits and set(TEST_FOLDERS) & set(splits):
        return True
    if splits:
        raise DataError(
            f"{root} holds {_listed(splits)}, which may be classes or splits; rename folders: allowed are train beside "
            "val or test, with a folder for each class in them, or folders of classes under other names"
        )
    return False


def undivided_classes(root: Path) -> Classes:
    """The class folders in a folder that is not divided into splits. Raises DataError if there are not two or more."""
    classes = classes_in(root)
    if len(classes) < 2:
        raise DataError(
            f"{root} holds {_listed(list(classes))}; `folder` or `root` must lead to a folder that holds train beside "
            "val or test, with a folder for each class in them, or a folder for each of two or more classes"
        )
    return classes


def divided_classes(root: Path) -> dict[str, Classes]:
    """{"train", "test": class folders} of a root that holds train/<class>/ and val/<class>/ (or test/).

    Raises DataError if a folder is missing, or if the test images have a class without training images.
    """
    train, test = root / "train", next((root / name for name in TEST_FOLDERS if (root / name).is_dir()), None)
    if not train.is_dir() or test is None:
        raise DataError(
            f"{root} must hold a folder train and a folder val or test, with a folder for each class in them"
        )
    trained, tested = classes_in(train), classes_in(test)
    if not trained:
        raise DataError(f"{train} holds no folder; each class of images needs one")
    if not set(trained) & set(tested):
        raise DataError(
            f"{test} holds {_listed(list(tested))}, and none of a class in {train}; move the test images into class "
            "folders, or list them with their labels (format image_list)"
        )
    if unknown := sorted(set(tested) - set(trained)):
        raise DataError(f"{test} has the class {unknown[0]}, which {train} lacks; both need the same classes")
    return {"train": trained, "test": {name: tested.get(name, test / name) for name in trained}}


def classes_in(folder: Path) -> Classes:
    """The folders in a folder, each a class. Raises DataError if the names of two look the same."""
    classes: Classes = {}
    for name in _names(folder):
        other = classes.setdefault(normalize("NFC", name), folder / name)
        if other.name != name:
            raise DataError(f"{folder} holds two folders {name}, in two forms of Unicode; put their images into one")
    return dict(sorted(classes.items()))


def list_images(root: Path, classes: Classes, nested: bool = False) -> list[tuple[str, int]]:
    """(path relative to `root`, label) of every file in class folders, in the order of their names.

    nested: whether the images of a class may all lie in one folder of its folder. Hidden files and those that systems
    add are skipped, and links are followed. Raises DataError if a class has no file, if its folder may hold classes or
    splits itself, if a folder cannot be read or contains itself through a link, or if a file name cannot stand on a
    line of a list.
    """
    entries = []
    for label, folder in enumerate(classes.values()):
        split = folder.parent
        files = list(_files_below(folder)) if folder.is_dir() else []
        if not files:
            raise DataError(f"{folder} holds no image; every class needs some in {split.name}")
        _expect_one_class(folder, {file.parent for file in files}, classes, nested)
        entries += [(checked_name(path.relative_to(root).as_posix(), split), label) for path in files]
    return entries


def _expect_one_class(folder: Path, parents: set[Path], classes: Classes, nested: bool) -> None:
    """Raise DataError if the folders in a class folder may be classes or splits. parents: those that hold its files."""
    inner = sorted({normalize("NFC", name) for parent in parents for name in parent.relative_to(folder).parts})
    unclear = [name for name in inner if name in classes or SPLIT_NAME.fullmatch(name)]
    if unclear or (Path(os.path.commonpath(parents)) if nested else folder) not in parents:
        raise DataError(
            f"{folder} holds {_listed(unclear or inner)}; it is unclear which folders are classes: let `folder` or "
            "`root` lead to the one that holds them (or train and val), or put images right into the folder of their "
            "class"
        )


def _listed(names: list[str]) -> str:
    """Name the first folders of a list."""
    return f"{len(names)} folders ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def checked_name(name: str, where: Path) -> str:
    """Return a path that can stand on a line of a list in UTF-8. Raises DataError if it cannot."""
    if CONTROLS.search(name):
        raise DataError(f"{where}: the file name {name!r} has characters that cannot stand in a list; rename it")
    return name


def passed_over(root: Path, splits: Mapping[str, Iterable[tuple[str, int]]]) -> list[str]:
    """What `list_images` skipped, relative to `root`: whatever lies beside its images and the folders above them."""
    folders = {os.path.dirname(path) for entries in splits.values() for path, _ in entries}
    folders = {str(above) for folder in folders for above in (Path(folder), *Path(folder).parents)}
    skipped = (path for folder in sorted(folders) for path in (root / folder).iterdir() if _is_skipped(path.name))
    return sorted(path.relative_to(root).as_posix() for path in skipped if path.name != MARK)


def visible(folder: Path) -> list[Path]:
    """Files and folders in a folder in the order of their names, without hidden ones and those that systems add."""
    try:
        return sorted(path for path in folder.iterdir() if not _is_skipped(path.name))
    except OSError as error:
        raise DataError(f"{folder} can't be read {why(error, 'its images are needed')}") from error


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or is_added_by_system(name)


def _names(folder: Path) -> list[str]:
    return [path.name for path in visible(folder) if path.is_dir()]


def _files_below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """All files in a folder and the folders below it, of any kind: what cannot be decoded is sorted out later."""
    real = folder.resolve()
    if real in above:
        raise DataError(f"{folder} is a link to {real}, which contains it; remove the link")
    for path in visible(folder):
        yield from _files_below(path, (*above, real)) if path.is_dir() else [path]
