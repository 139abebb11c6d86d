"""Image files in class folders of an archive or the user's own: train/<class>/* and val/<class>/*, or <class>/*.

Of an archive, `root` says which of its folders holds them. Where the images are not divided into training and test
images, the test images are drawn: a share of each class (`test_share`), by a seed (`seed`).
"""

from collections.abc import Mapping
from pathlib import Path

from trainmark.datasets.formats._trees import (
    Classes,
    divided_classes,
    is_divided,
    list_images,
    passed_over,
    top_folder,
    undivided_classes,
)
from trainmark.datasets.images.lists import ImageList
from trainmark.datasets.samples import Folders, ImageLists, drawn_share
from trainmark.errors import DataError

FORMAT = {
    "kind": "image_lists",
    "required": ["files|folder"],
    "optional": ["root", "class_names", "test_share", "seed", "encoding"],
}

TEST_SHARE = 0.2
"""Default of `test_share`."""

SEED = 1
"""Default of `seed`."""


def read(folders: Folders, entry: Mapping) -> ImageLists:
    """List the images of the user's folder or of the entry's archives. Raises DataError for another layout."""
    root = top_folder(folders, entry) / entry.get("root", "")
    if is_divided(root):
        if keys := [key for key in ("test_share", "seed") if key in entry]:
            raise DataError(f"{root} holds test images in a folder of their own; remove {' and '.join(keys)}")
        parts = divided_classes(root)
        classes = parts["train"]
        splits = {split: list_images(root, of_split, nested=True) for split, of_split in parts.items()}
    else:
        classes = undivided_classes(root)
        splits = _drawn(root, classes, entry)
    names = entry.get("class_names") or list(classes)
    if len(names) != len(classes):
        raise DataError(f"{root} holds {len(classes)} classes, and the entry names {len(names)} in class_names")
    return ImageLists(root, splits, names, passed_over(root, splits))


def _drawn(root: Path, classes: Classes, entry: Mapping) -> dict[str, ImageList]:
    """Draw the test images of each class by their paths; the others are training images.

    Raises DataError for a class of one image.
    """
    share, seed = entry.get("test_share", TEST_SHARE), entry.get("seed", SEED)
    images = list_images(root, classes)
    splits: dict[str, ImageList] = {"train": [], "test": []}
    for label, folder in enumerate(classes.values()):
        of_class = [image for image in images if image[1] == label]
        if len(of_class) == 1:
            raise DataError(f"{folder} holds one image; each class needs two or more, of which one is a test image")
        test = drawn_share(of_class, share, seed, lambda image: image[0])
        for image in of_class:
            splits["test" if image in test else "train"].append(image)
    return splits
