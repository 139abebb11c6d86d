"""Prepared datasets: one .npy per split and kind beside a manifest that says what they are."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainmark.datasets import Arrays
from trainmark.errors import DataError

SPLITS = ("train", "test")


def check(name: str, entry: Mapping, arrays: Arrays) -> None:
    """Raise DataError where the arrays are not what the catalogue says of the dataset `name`."""
    for split, (images, labels) in arrays.items():
        if images.shape[1:] != tuple(entry["image_shape"]):
            found, wanted = images.shape[1:], tuple(entry["image_shape"])
            raise DataError(f"{name}, {split}: images are {found}, and config/datasets.yaml says {wanted}")
        if len(images) != entry["samples"][split]:
            found, wanted = len(images), entry["samples"][split]
            raise DataError(f"{name}, {split}: {found} samples, and config/datasets.yaml says {wanted}")
        if labels.min() < 0 or labels.max() >= entry["classes"]:
            found, last = f"{labels.min()} to {labels.max()}", entry["classes"] - 1
            raise DataError(f"{name}, {split}: labels run from {found}, and config/datasets.yaml allows 0 to {last}")


def write(folder: Path, name: str, entry: Mapping, arrays: Arrays, sources: list[dict]) -> None:
    """Write `<split>_images.npy`, `<split>_labels.npy` and `manifest.json` into `folder`."""
    digest = hashlib.sha256()
    for split in SPLITS:
        for kind, array in zip(("images", "labels"), arrays[split], strict=True):
            np.save(folder / f"{split}_{kind}.npy", array, allow_pickle=False)
            digest.update(np.ascontiguousarray(array).tobytes())
    manifest = {
        "dataset": name,
        "format": entry["format"],
        "classes": entry["classes"],
        "image_shape": list(entry["image_shape"]),
        "dtype": "uint8",
        "samples": {split: len(arrays[split][1]) for split in SPLITS},
        "content_sha256": digest.hexdigest(),
        "sources": sources,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def read_manifest(folder: Path) -> dict:
    """The manifest of a prepared dataset."""
    return json.loads((folder / "manifest.json").read_text())


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels) of one split, memory-mapped; nothing in the files is unpickled."""
    images, labels = (
        np.load(folder / f"{split}_{kind}.npy", mmap_mode="r", allow_pickle=False) for kind in ("images", "labels")
    )
    return images, labels
