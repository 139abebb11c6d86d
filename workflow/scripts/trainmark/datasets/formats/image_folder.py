"""Image files in folders, train/<class>/* and val/<class>/*, or in lists of `<path> <label>`; of archives or one's own.

Of an archive, `root` says which of its folders holds them. `lists` names a list for each split; paths start at root.
"""

from collections.abc import Mapping
from pathlib import Path

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.formats._trees import (
    checked_name,
    class_folders,
    expect_only,
    list_images,
    own_folder,
    unpack_into,
)
from trainmark.datasets.images.lists import ImageList, read_list
from trainmark.datasets.samples import Folders, ImageLists, class_names_of
from trainmark.errors import DataError

FORMAT = {"kind": "image_lists", "required": ["files|folder"], "optional": ["root", "lists", "class_names"]}


def read(folders: Folders, entry: Mapping) -> ImageLists:
    """List the images of the user's folder or of the entry's archives. Raises DataError for another layout."""
    root = _top(folders, entry) / entry.get("root", "")
    if "lists" in entry:
        return _from_lists(root, entry)
    splits, class_names = class_folders(root)
    names = entry.get("class_names") or class_names
    if len(names) != len(class_names):
        raise DataError(
            f"{splits['train']} holds {len(class_names)} classes; the catalogue entry has {len(names)} class_names; "
            "give one for each folder, in the order of the folders' names"
        )
    return ImageLists(
        root,
        {split: list_images(root, folder, class_names) for split, folder in splits.items()},
        names,
    )


def _top(folders: Folders, entry: Mapping) -> Path:
    if "folder" in entry:
        return own_folder(entry)
    expect_only(folders, entry["files"])
    for file in entry["files"]:
        unpack_into(folders, file)
    return folders.unpacked


def _from_lists(root: Path, entry: Mapping) -> ImageLists:
    splits = {split: _checked(root / entry["lists"][split], root) for split in SPLITS}
    classes = 1 + max((label for entries in splits.values() for _, label in entries), default=-1)
    return ImageLists(root, splits, class_names_of({"classes": classes, **entry}))


def _checked(path: Path, root: Path) -> ImageList:
    """Read a list. Raises DataError if a path leads out of `root`, as a list from another machine may."""
    entries = read_list(path)
    for number, (name, _) in enumerate(entries, 1):
        checked_name(name, path)
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise DataError(f"{path}, line {number}: {name} leads out of {root}; paths start there")
    return entries
