"""Some classes of another dataset, chosen by a seed and numbered anew from 0: mini-ImageNet and its like."""

import hashlib
from collections.abc import Mapping

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.images import lists as image_lists
from trainmark.datasets.samples import Arrays, Folders, ImageLists
from trainmark.errors import DataError

FORMAT = {"kind": "subset", "required": ["of", "classes", "seed"], "optional": []}


def read(folders: Folders, entry: Mapping) -> Arrays | ImageLists:
    """The chosen classes of the prepared dataset in `folders.base`. Raises DataError where it has too few."""
    manifest = prepared.read_manifest(folders.base)
    names = manifest["class_names"]
    chosen = choose(names, entry["classes"], entry["seed"], entry["of"])
    new_labels = {names.index(name): label for label, name in enumerate(chosen)}
    if manifest["kind"] == "image_lists":
        lists = {split: _entries(folders, split, new_labels) for split in SPLITS}
        return ImageLists(prepared.image_root(folders.base, manifest), lists, chosen)
    splits = {split: _arrays(folders, split, new_labels) for split in SPLITS}
    return Arrays(splits, chosen, manifest["kind"], prepared.read_vocabulary(folders.base))


def choose(names: list[str], classes: int, seed: int, of: str) -> list[str]:
    """`classes` of the class names, in their order.

    The first ones by the SHA-256 of seed and name: the same on every machine, whatever generator its libraries have,
    and a smaller choice of the same seed lies within a larger one.
    """
    if classes > len(names):
        raise DataError(f"{classes} classes are asked for, and {of} has {len(names)}; ask for at most that many")
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    chosen = set(ranked[:classes])
    return [name for name in names if name in chosen]


def _entries(folders: Folders, split: str, new_labels: dict[int, int]) -> image_lists.ImageList:
    entries = image_lists.prepared_list(folders.base, split)
    return [(path, new_labels[label]) for path, label in entries if label in new_labels]


def _arrays(folders: Folders, split: str, new_labels: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = prepared.read_split(folders.base, split)
    kept = np.isin(labels, list(new_labels))
    return inputs[kept], np.array([new_labels[label] for label in labels[kept].tolist()], np.int64)
