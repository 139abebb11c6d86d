"""A validation split: training samples of another dataset are held out as test samples.

Settings that are chosen by them were not chosen by the test samples of that dataset, which are no part of this one.
"""

from collections.abc import Mapping

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.images import lists as image_lists
from trainmark.datasets.samples import Arrays, Folders, ImageLists, drawn_share
from trainmark.errors import DataError

FORMAT = {"kind": "subset", "required": ["of", "test_share", "seed"], "optional": []}


def read(folders: Folders, entry: Mapping) -> Arrays | ImageLists:
    """The training samples of the prepared dataset in `folders.base`, as training and test samples.

    Raises DataError if a class has one training sample.
    """
    manifest = prepared.read_manifest(folders.base)
    names = manifest["class_names"]
    if manifest["kind"] == "image_lists":
        images = image_lists.prepared_list(folders.base, "train")
        held_out = draw(np.array([label for _, label in images]), names, entry)
        lists = {
            split: [image for image, is_tested in zip(images, held_out, strict=True) if is_tested == (split == "test")]
            for split in ("train", "test")
        }
        return ImageLists(prepared.image_root(folders.base, manifest), lists, names)
    inputs, labels = prepared.read_split(folders.base, "train")
    held_out = draw(labels, names, entry)
    splits = {"train": (inputs[~held_out], labels[~held_out]), "test": (inputs[held_out], labels[held_out])}
    return Arrays(splits, names, manifest["kind"], prepared.read_vocabulary(folders.base))


def draw(labels: np.ndarray, names: list[str], entry: Mapping) -> np.ndarray:
    """Return which samples are held out, bool (samples,): `test_share` of each class, drawn by their positions."""
    held_out = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label).tolist()
        if len(of_class) == 1:
            raise DataError(f"{entry['of']} has one training sample of {names[label]}; each class needs two or more")
        held_out[list(drawn_share(of_class, entry["test_share"], entry["seed"], str))] = True
    return held_out
