"""Image files in lists of `<path> <label>` lines, one list for each split; of archives or the user's own.

Labels count from 0 and have no gap. Paths start at `folder`, at `root` below it, or at the folder of their list in
`roots` below that. The lists' own paths start at `folder` unless they are absolute.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.formats._trees import checked_name, top_folder
from trainmark.datasets.images.lists import ImageList, read_list
from trainmark.datasets.samples import Folders, ImageLists, class_names_of
from trainmark.errors import DataError

FORMAT = {"kind": "image_lists", "required": ["files|folder", "lists"], "optional": ["root", "roots", "class_names"]}


def read(folders: Folders, entry: Mapping) -> ImageLists:
    """Read the lists. Raises DataError, with the list and the line, if an image or a label is not right."""
    top = top_folder(folders, entry)
    root = top / entry.get("root", "")
    files = {split: top / os.path.expanduser(entry["lists"][split]) for split in SPLITS}
    below = {split: entry.get("roots", {}).get(split, "") for split in SPLITS}
    splits = {
        split: [(os.path.join(below[split], name), label) for name, label in read_list(file)]
        for split, file in files.items()
    }
    for split, file in files.items():
        _check_paths(file, splits[split], root)
    _check_labels(files["train"], splits, entry)
    classes = 1 + max((label for entries in splits.values() for _, label in entries), default=-1)
    return ImageLists(root, splits, class_names_of({"classes": classes, **entry}))


def _check_paths(file: Path, entries: ImageList, root: Path) -> None:
    """Raise DataError if a path leads out of `root`, as one from another machine may, or if there is no such image."""
    for number, (name, _) in enumerate(entries, 1):
        checked_name(name, file)
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise DataError(f"{file}, line {number}: {name} leads out of {root}; paths start there")
        if not os.path.isfile(root / name):
            raise DataError(
                f"{file}, line {number}: there is no image {root / name}; correct the line, or the `root` of the entry"
            )


def _check_labels(file: Path, splits: Mapping[str, ImageList], entry: Mapping) -> None:
    """Raise DataError if a label up to the largest has no training image: labels that start at 1, or a lost class."""
    trained = {label for _, label in splits["train"]}
    classes = entry.get("classes") or len(entry.get("class_names", [])) or 1 + max(trained, default=-1)
    missing = sorted(set(range(classes)) - trained)
    if trained and missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise DataError(
            f"{file}: no line has the label {missing[0]}{more}; labels count from 0, and each of 0 to {classes - 1} "
            "needs a training image"
        )
