"""Reading prepared datasets: arrays or lists of images beside a manifest that says what they are."""

import hashlib
import json
from pathlib import Path

import numpy as np

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import is_sealed

ARRAY_KINDS = ("images", "tokens")
"""Kinds of datasets whose inputs are one array a split: train_images.npy, train_tokens.npy."""

VOCABULARY_FILE = "vocabulary.json"
"""The words of a dataset of texts that have ids of their own, with their ranks, and how many ids there are."""


def read_manifest(folder: Path) -> dict:
    """The manifest of a prepared dataset. Raises DataError where there is none of this version, or it was changed."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        # Nobody is told to delete it: a typing error may have named a folder of other things.
        raise DataError(
            f"{folder} holds no prepared dataset (there is no manifest.json in it); give the folder "
            "results/datasets/<name>/prepared of one, or run snakemake to prepare it"
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} holds no prepared dataset ({error}); {_again(folder)}") from error
    if not isinstance(manifest, dict) or "kind" not in manifest:
        raise DataError(f"{folder} was prepared by another version of trainmark; {_again(folder)}")
    if not is_sealed(manifest):
        raise DataError(
            f"{folder / 'manifest.json'} was changed after it was written, or another version of trainmark wrote it: "
            f"its SHA-256 is not that of its content; {_again(folder)}"
        )
    return manifest


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of one split, memory-mapped; nothing in the files is unpickled.

    Raises DataError where a file is not, byte for byte, what was prepared, or the dataset is one of image files.
    """
    manifest = read_manifest(folder)
    if manifest["kind"] not in ARRAY_KINDS:
        raise DataError(f"{folder} holds lists of image files, and an array is asked for; take a dataset of arrays")
    inputs, labels = (
        _read_array(folder, manifest["arrays"][f"{split}_{part}"]) for part in (manifest["kind"], "labels")
    )
    if not len(inputs) == len(labels) == manifest["samples"][split]:
        raise DataError(
            f"{folder}, {split}: found {len(inputs)} samples, {len(labels)} labels, and {manifest['samples'][split]} "
            f"samples in the manifest; allowed: as many of each; {_again(folder)}"
        )
    return inputs, labels


def read_splits(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(inputs, labels) by split, as `read_split` gives them.

    Raises DataError, too, where the content of the arrays is not that of the manifest's content_sha256, which records
    name: a manifest can be edited along with an array.
    """
    splits = {split: read_split(folder, split) for split in SPLITS}
    digest = hashlib.sha256()
    for inputs, labels in splits.values():
        for array in (inputs, labels):
            digest.update(np.ascontiguousarray(array).data)
    if digest.hexdigest() != read_manifest(folder)["content_sha256"]:
        raise DataError(f"{folder}: the content_sha256 of the manifest is not that of the arrays; {_again(folder)}")
    return splits


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """What turns a text into token ids as the dataset's texts were; None where it was given token ids, or images.

    Raises DataError where the file is not, byte for byte, what was prepared.
    """
    described = read_manifest(folder).get("vocabulary")
    if described is None:
        return None
    path = folder / described["file"]
    _expect_sha256(folder, path, described["sha256"])
    return Vocabulary(**json.loads(path.read_text(encoding="utf-8")))


def _read_array(folder: Path, described: dict) -> np.ndarray:
    path = folder / described["file"]
    _expect_sha256(folder, path, described["sha256"])
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses what would have to be unpickled
    except ValueError as error:
        raise DataError(f"{path} is no array of numbers ({error}); {_again(folder)}") from error


def _expect_sha256(folder: Path, path: Path, sha256: str | None) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing; {_again(folder)}")
    if sha256_of(path) != sha256:
        raise DataError(f"{path} is damaged; {_again(folder)}")


def image_root(folder: Path, manifest: dict) -> Path:
    """The folder that the paths in a dataset's lists of images start from."""
    return Path(folder, manifest["root"])


def list_file(folder: Path, split: str) -> Path:
    """The list of a split's images."""
    return folder / f"{split}.txt"


def checked_list(folder: Path, split: str) -> Path:
    """The list of a split's images. Raises DataError where it is not, byte for byte, what was prepared."""
    path = list_file(folder, split)
    _expect_sha256(folder, path, read_manifest(folder).get("lists", {}).get(split))
    return path


def _again(folder: Path) -> str:
    return f"delete {folder} and run snakemake again"
