"""Some classes of another dataset, chosen by a seed and renumbered from 0, such as mini-ImageNet."""

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
    """The chosen classes of the prepared dataset in `folders.base`. Raises DataError if it has too few."""
    manifest = prepared.read_manifest(folders.base)
    names = manifest["class_names"]
    chosen = choose(names, entry["classes"], entry["seed"], entry["of"])
    new_labels = {names.index(name): label for label, name in enumerate(chosen)}
    if manifest["kind"] == "image_lists":
        lists = {}
        for split in SPLITS:
            entries = image_lists.prepared_list(folders.base, split)
            lists[split] = [(path, new_labels[label]) for path, label in entries if label in new_labels]
        return ImageLists(prepared.image_root(folders.base, manifest), lists, chosen)
    splits = {split: _arrays(folders, split, new_labels) for split in SPLITS}
    return Arrays(splits, chosen, manifest["kind"], prepared.read_vocabulary(folders.base))


def choose(names: list[str], classes: int, seed: int, of: str) -> list[str]:
    """The names with the smallest SHA-256 of seed and name, in their original order. Raises DataError if too few.

    The choice is the same on every machine, and a smaller choice of a seed is part of its larger ones.
    """
    if classes > len(names):
        raise DataError(f"found `classes: {classes}`; allowed: at most the {len(names)} classes of {of}")
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    chosen = set(ranked[:classes])
    return [name for name in names if name in chosen]


def _arrays(folders: Folders, split: str, new_labels: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = prepared.read_split(folders.base, split)
    chosen = np.isin(labels, list(new_labels))
    return inputs[chosen], np.array([new_labels[label] for label in labels[chosen].tolist()], np.int64)
