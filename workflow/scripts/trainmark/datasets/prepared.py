"""Read prepared datasets: arrays or lists of images, and the manifest that describes them."""

import hashlib
import json
from pathlib import Path

import numpy as np

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError, expect_damage
from trainmark.files.checksums import sha256_of
from trainmark.files.scratch import staged
from trainmark.files.seal import is_sealed

ARRAY_KINDS = {"images": np.dtype(np.uint8), "tokens": np.dtype(np.int32)}
"""Kinds of datasets whose inputs are one array for each split, such as train_images.npy, and its type."""

VOCABULARY_FILE = "vocabulary.json"
"""File with the number of token ids and the words that have their own id, with their ranks."""


def read_manifest(folder: Path) -> dict:
    """Read the manifest of a prepared dataset. Raises DataError if it is missing, of another version or changed."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        expect_damage(error, folder)
        # The message does not advise to delete the folder: a typing error may have named one that holds other things.
        raise DataError(
            f"{folder} holds no prepared dataset ({error}); give the folder results/datasets/<name>/<key>/prepared of "
            "one, or run snakemake to prepare it, without this manifest.json if there is one"
        ) from error
    if not isinstance(manifest, dict) or not is_sealed(manifest):
        raise DataError(
            f"{folder / 'manifest.json'} was changed after it was written, or another version of trainmark wrote it: "
            f"its SHA-256 is not that of its content; {_again(folder)}"
        )
    return manifest


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of one split, memory-mapped; nothing is unpickled.

    Raises DataError if a file is not byte for byte the prepared one, or if the dataset consists of image files.
    """
    manifest = read_manifest(folder)
    _expect_arrays(folder, manifest, split)
    return _open_split(folder, manifest, split)


def read_splits(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(inputs, labels) by split, as `read_split` gives them.

    Raises DataError if the arrays are not of the type and shape of the manifest, or do not have its content_sha256,
    which records refer to.
    """
    manifest = read_manifest(folder)
    splits = {split: _open_split(folder, manifest, split) for split in SPLITS}
    digest = hashlib.sha256()
    for inputs, labels in splits.values():
        for array in (inputs, labels):
            digest.update(np.ascontiguousarray(array).data)
    sample_shape = tuple(manifest["sample_shape"])
    as_prepared = (ARRAY_KINDS[manifest["kind"]], sample_shape, np.dtype(np.int64))
    differ = any((inputs.dtype, inputs.shape[1:], labels.dtype) != as_prepared for inputs, labels in splits.values())
    if differ or digest.hexdigest() != manifest["content_sha256"]:
        raise DataError(f"{folder}: the content_sha256 of the manifest is not that of the arrays; {_again(folder)}")
    return splits


def _described(folder: Path, manifest: dict, split: str) -> list[dict]:
    if manifest["kind"] not in ARRAY_KINDS:
        raise DataError(f"{folder} holds lists of image files; only a dataset of arrays can be read here")
    return [manifest["arrays"][f"{split}_{part}"] for part in (manifest["kind"], "labels")]


def _expect_arrays(folder: Path, manifest: dict, split: str) -> None:
    for described in _described(folder, manifest, split):
        _expect_sha256(folder, staged(folder / described["file"], described["sha256"]), described["sha256"])


def _open_split(folder: Path, manifest: dict, split: str) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = (_open_array(folder, described) for described in _described(folder, manifest, split))
    if not len(inputs) == len(labels) == manifest["samples"][split]:
        _expect_arrays(folder, manifest, split)
        raise DataError(f"{folder}, {split}: the arrays differ in length from the manifest; {_again(folder)}")
    return inputs, labels


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """Vocabulary that encodes a text like those of the dataset; None for images and for texts given as token ids.

    Raises DataError if the file is not byte for byte the prepared one.
    """
    described = read_manifest(folder).get("vocabulary")
    if described is None:
        return None
    path = folder / described["file"]
    _expect_sha256(folder, path, described["sha256"])
    return Vocabulary(**json.loads(path.read_text(encoding="utf-8")))


def _open_array(folder: Path, described: dict) -> np.ndarray:
    path = staged(folder / described["file"], described["sha256"])
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses arrays that would have to be unpickled
    except (OSError, ValueError) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is damaged or missing ({error}); {_again(folder)}") from error


def _expect_sha256(folder: Path, path: Path, sha256: str | None) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing; {_again(folder)}")
    if sha256_of(path) != sha256:
        raise DataError(f"{path} is damaged; {_again(folder)}")


def image_root(folder: Path, manifest: dict) -> Path:
    """The folder to which the paths in a dataset's lists of images are relative."""
    return Path(folder, manifest["root"])


def checked_list(folder: Path, split: str) -> Path:
    """Path of the list of a split's images. Raises DataError if it is not byte for byte the prepared one."""
    path = folder / f"{split}.txt"
    _expect_sha256(folder, path, read_manifest(folder).get("lists", {}).get(split))
    return path


def _again(folder: Path) -> str:
    return f"delete {folder} and run snakemake again"
