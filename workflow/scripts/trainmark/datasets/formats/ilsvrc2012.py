"""ImageNet's ILSVRC2012, from the user's folder or from the three archives, which may not be redistributed.

A folder holds train/<wnid>/ and val/<wnid>/. The archives are the training images (a tar of 1,000 tars), the validation
images (flat), and the development kit, which has their labels. Classes are numbered in the order of their wnids, as
Caffe, Chainer's example and torchvision have it; the kit's own numbers (ILSVRC2012_ID) are another order.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from trainmark.datasets.formats._trees import (
    checked_name,
    classes_in,
    divided_classes,
    list_images,
    own_folder,
    passed_over,
    unpacked,
    visible,
)
from trainmark.datasets.samples import Folders, ImageLists
from trainmark.errors import DataError, expect_damage

FORMAT = {"kind": "image_lists", "required": ["files|folder", "classes"], "optional": []}

TRAIN, TEST, KIT = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"


def read(folders: Folders, entry: Mapping) -> ImageLists:
    """List the training and validation images. Raises DataError for another layout."""
    if "folder" in entry:
        root = own_folder(entry)
        parts = divided_classes(root)
        lists = {split: list_images(root, classes, nested=True) for split, classes in parts.items()}
        return ImageLists(root, lists, list(parts["train"]), passed_over(root, lists))
    files = {file["name"]: file for file in entry["files"]}
    into = {TRAIN: "train", TEST: "val", KIT: "devkit"}
    if not set(into) <= set(files):
        raise DataError(f"{entry['title']}: its `files` must hold all three archives, {', '.join(into)}")
    root = unpacked(folders, [files[name] for name in into], into)
    classes = classes_in(root / "train")
    wnids = list(classes)
    kit = root / "devkit" / "ILSVRC2012_devkit_t12" / "data"
    lists = {"train": list_images(root, classes), "test": _validation(root, root / "val", kit, wnids)}
    return ImageLists(root, lists, wnids, passed_over(root, lists))


def _validation(root: Path, test: Path, kit: Path, wnids: list[str]) -> list[tuple[str, int]]:
    """The validation images with their labels: line n of the ground truth is the ILSVRC2012_ID of image n."""
    wnid_of_id = _wnid_of_id(kit / "meta.mat")
    label_of_wnid = {wnid: label for label, wnid in enumerate(wnids)}
    truth = kit / "ILSVRC2012_validation_ground_truth.txt"
    images = [path for path in visible(test) if path.is_file()]
    try:
        labels = [label_of_wnid[wnid_of_id[int(line)]] for line in truth.read_text().split()]
    except (OSError, ValueError, KeyError) as error:
        expect_damage(error, truth)
        raise DataError(f"{truth} does not give a trained class for every image ({error!r})") from error
    if len(labels) != len(images):
        raise DataError(f"{truth} has {len(labels)} labels, and {test} {len(images)} images")
    names = [checked_name(path.relative_to(root).as_posix(), test) for path in images]
    return list(zip(names, labels, strict=True))


def _wnid_of_id(meta: Path) -> dict[int, str]:
    """The kit's wnids by ILSVRC2012_ID, with those of synsets that group others (ImageNet's inner nodes)."""
    try:
        synsets = np.atleast_1d(loadmat(meta, squeeze_me=True, struct_as_record=False)["synsets"])
        return {int(synset.ILSVRC2012_ID): str(synset.WNID) for synset in synsets}
    except Exception as error:  # loadmat raises many types for a damaged file: zlib.error, IndexError, ...
        expect_damage(error, meta)
        raise DataError(f"{meta} is not the development kit's table of synsets ({type(error).__name__})") from error
