"""Check a dataset against its catalogue entry and write it in prepared form; every image file is decoded once."""

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor, prod
from pathlib import Path

import numpy as np

from trainmark.console import print_line, say_when_long
from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS, STORED_SIDE
from trainmark.datasets.images import lists as image_lists
from trainmark.datasets.samples import Arrays, Folders, ImageLists
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.disk import new_array
from trainmark.files.seal import sealed
from trainmark.files.whole import write_text, written_whole

BLOCK_BYTES = 1 << 26
"""Bytes written at a time. This bounds memory when inputs are generated."""

UNREADABLE_SHARE = 0.001
"""Default of `unreadable_share`: the share of images that may be left out because they cannot be decoded."""


def prepare(
    folder: Path, name: str, entry: Mapping, dataset: Arrays | ImageLists, sources: list[dict], workers: int
) -> dict:
    """Check a dataset, write it into `folder` and return its manifest.

    name, entry: the dataset's name and its catalogue entry. sources: what `fetch_dataset` returned. workers: threads
    that decode images. Raises DataError if the dataset differs from its entry, or if more images than allowed cannot be
    decoded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_labels(name, entry, dataset)
    write: Callable[..., dict] = _write_arrays if isinstance(dataset, Arrays) else _write_lists
    manifest = sealed(
        {
            "dataset": name,
            "title": entry["title"],
            "format": entry["format"],
            "kind": dataset.kind,
            "classes": len(dataset.class_names),
            "class_names": dataset.class_names,
            **write(folder, name, entry, dataset, workers),
            "sources": sources,
        }
    )
    write_text(folder / "classes.txt", "".join(f"{class_name}\n" for class_name in dataset.class_names))
    write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def check_labels(name: str, entry: Mapping, dataset: Arrays | ImageLists) -> None:
    """Raise DataError where classes, samples or labels are not those of the entry, or a test label is not trained."""
    classes = len(dataset.class_names)
    if entry.get("classes", classes) != classes:
        raise DataError(f"{name}: found {classes} classes; its entry says {entry['classes']}")
    for split in SPLITS:
        labels = labels_in(dataset, split)
        if not len(labels):
            raise DataError(f"{name}, {split}: found no sample; each split needs one or more")
        if entry.get("samples", {}).get(split, len(labels)) != len(labels):
            raise DataError(f"{name}, {split}: found {len(labels)} samples; its entry says {entry['samples'][split]}")
        if labels.min() < 0 or labels.max() >= classes:
            raise DataError(
                f"{name}, {split}: labels run from {labels.min()} to {labels.max()}; allowed for {classes} classes: "
                f"0 to {classes - 1}"
            )
    _check_tested_classes(name, dataset.class_names, labels_in(dataset, "train"), labels_in(dataset, "test"))


def _check_tested_classes(name: str, class_names: Sequence[str], train: np.ndarray, test: np.ndarray) -> None:
    """Raise DataError where a label occurs in the test split and not in training: no network can learn it."""
    untrained = np.setdiff1d(test, train)
    if len(untrained):
        shown = ", ".join(class_names[label] for label in untrained[:5])
        raise DataError(
            f"{name}: {len(untrained)} labels occur in the test split and never in training ({shown}); add training "
            f"samples of them, or remove these {np.isin(test, untrained).sum()} of {len(test)} test samples"
        )


def labels_in(dataset: Arrays | ImageLists, split: str) -> np.ndarray:
    """The labels of a split, int64 (samples,)."""
    if isinstance(dataset, Arrays):
        return dataset.splits[split][1]
    return np.array([label for _, label in dataset.splits[split]], np.int64)


def _write_arrays(folder: Path, name: str, entry: Mapping, dataset: Arrays, _: int) -> dict:
    """Write `<split>_<inputs>.npy` and `<split>_labels.npy`; return their part of the manifest."""
    digest = hashlib.sha256()
    described = {}
    for split in SPLITS:
        inputs, labels = dataset.splits[split]
        _check_inputs(name, split, entry, inputs)
        for part, array in ((dataset.kind, inputs), ("labels", labels)):
            file = folder / f"{split}_{part}.npy"
            with say_when_long(f"preparing {name}: writing {file.name}"):
                sha256 = _save(file, array, digest)
            described[f"{split}_{part}"] = {
                "file": file.name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "sha256": sha256,
            }
    return {
        "sample_shape": list(dataset.splits["train"][0].shape[1:]),
        "samples": {split: len(dataset.splits[split][1]) for split in SPLITS},
        "arrays": described,
        "content_sha256": digest.hexdigest(),
        "vocabulary": _write_vocabulary(folder / prepared.VOCABULARY_FILE, dataset.vocabulary),
    }


def _write_vocabulary(file: Path, vocabulary: Vocabulary | None) -> dict | None:
    """Write the words that have their own ids, the most frequent first; return their part of the manifest."""
    if vocabulary is None:
        return None
    ranks = dict(sorted(vocabulary.in_use().items(), key=lambda word_rank: word_rank[1]))
    content = {"size": vocabulary.size, "word_ranks": ranks}
    write_text(file, json.dumps(content, ensure_ascii=False, indent=0) + "\n")
    return {"file": file.name, "sha256": sha256_of(file)}


def _check_inputs(name: str, split: str, entry: Mapping, inputs: np.ndarray) -> None:
    if "of" in entry:
        return  # the dataset that it is taken from was checked
    expected = tuple(entry["image_shape"]) if "image_shape" in entry else (entry["sequence_length"],)
    if inputs.shape[1:] != expected:
        raise DataError(f"{name}, {split}: samples have the shape {inputs.shape[1:]}; its entry says {expected}")


def _save(file: Path, array: np.ndarray, digest: "hashlib._Hash") -> str:
    """Write an array block by block and return the SHA-256 of the file; `digest` is updated with the values alone.

    Raises StorageError if the disk is too small.
    """
    samples = max(1, BLOCK_BYTES // (prod(array.shape[1:]) * array.dtype.itemsize))
    with written_whole(file) as part:
        begin = new_array(part, array.dtype, array.shape, str(file))
        with open(part, "r+b") as out:
            file_hash = hashlib.sha256(out.read(begin))
            for start in range(0, len(array), samples):
                block = np.ascontiguousarray(array[start : start + samples]).data
                out.write(block)
                digest.update(block)
                file_hash.update(block)
    return file_hash.hexdigest()


def _write_lists(folder: Path, name: str, entry: Mapping, dataset: ImageLists, workers: int) -> dict:
    """Write `<split>.txt`, and unreadable.txt and identical.txt next to the folder; return their part of the manifest.

    Snakemake deletes the folder itself where preparing fails.
    """
    scanned = image_lists.scan(dataset.root, dataset.splits, workers, f"{name}: checking images")
    unreadable_file, identical_file = (folder.parent / f"{what}.txt" for what in ("unreadable", "identical"))
    for file, images in ((unreadable_file, scanned.unreadable), (identical_file, scanned.identical)):
        write_text(file, "".join("\t".join(image) + "\n" for image in images))
    _check_unreadable(name, entry, dataset, scanned, unreadable_file)
    train, test = (np.array([label for _, label in scanned.splits[split]], np.int64) for split in SPLITS)
    _check_tested_classes(name, dataset.class_names, train, test)  # once more: unreadable images are left out
    if count := len(scanned.identical):
        found = f"{count} of {len(test)} test images are also training images (same SHA-256)"
        print_line(f"{name}: {found}; {identical_file} lists them", sys.stderr)
    for split in SPLITS:
        image_lists.write_list(folder / f"{split}.txt", scanned.splits[split])
    return {
        "sample_shape": [3, STORED_SIDE, STORED_SIDE],
        "samples": {split: len(scanned.splits[split]) for split in SPLITS},
        "root": _portable(dataset.root, folder),
        "lists": {split: sha256_of(folder / f"{split}.txt") for split in SPLITS},
        "passed_over": len(dataset.passed_over),
        "unreadable": scanned.unreadable,
        "identical": len(scanned.identical),
        "content_sha256": scanned.content_sha256,
    }


def _check_unreadable(
    name: str, entry: Mapping, dataset: ImageLists, scanned: image_lists.Scanned, unreadable_file: Path
) -> None:
    """Raise DataError if more images than the entry allows cannot be decoded, or all images of a split."""
    unreadable = scanned.unreadable
    images = sum(len(entries) for entries in dataset.splits.values())
    share = entry.get("unreadable_share", UNREADABLE_SHARE)
    allowed = floor(Fraction(str(share)) * images)  # str: 0.29 of 100 is 29, and 28.999... in binary
    if len(unreadable) > allowed:
        _, path, reason = unreadable[0]
        raise DataError(
            f"{name}: {len(unreadable)} of {images} images can't be decoded, the first of them "
            f"{dataset.root / path} ({reason}); {unreadable_file} lists them all; allowed: {allowed} (unreadable_share "
            f"{share:g}); replace them, or raise unreadable_share in the dataset's entry"
        )
    for split, entries in scanned.splits.items():
        if not entries:
            raise DataError(f"{name}, {split}: no image can be decoded; {unreadable_file} says why; replace them")


def _portable(root: Path, folder: Path) -> str:
    """The root of the images as written into the manifest.

    A root inside the dataset's folder is relative to the prepared folder, so that results can be moved; others are
    absolute.
    """
    dataset_folder = folder.absolute().parent.parent
    inside = root.absolute().is_relative_to(dataset_folder)
    return os.path.relpath(root.absolute(), folder.absolute()) if inside else str(root.absolute())


def read_dataset(folders: Folders, entry: Mapping) -> Arrays | ImageLists:
    """Read the dataset of a catalogue entry with the module of its format; say how many files were passed over."""
    form = importlib.import_module(f"trainmark.datasets.formats.{entry['format']}")
    dataset: Arrays | ImageLists = form.read(folders, entry)
    if isinstance(dataset, ImageLists) and dataset.passed_over:
        print_line(
            f"{entry['title']}: passed over {len(dataset.passed_over)} files and folders that are hidden or that a "
            f"system added, the first of them {dataset.root / dataset.passed_over[0]}",
            sys.stderr,
        )
    return dataset
