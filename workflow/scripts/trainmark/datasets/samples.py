"""What the reader of a format returns: the samples of a dataset, as arrays or as lists of image files."""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unicodedata import normalize

import numpy as np

from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError

Sample = TypeVar("Sample", bound=Hashable)


@dataclass(frozen=True)
class Folders:
    """Folders that the reader of a format uses.

    raw: the downloaded files.
    unpacked: where archives are unpacked; it is kept between attempts.
    base: the prepared folder of the dataset that this one is a part of; None for other formats.
    """

    raw: Path
    unpacked: Path
    base: Path = None  # type: ignore[assignment]  # only formats of the kind "subset" read it


@dataclass(frozen=True)
class Arrays:
    """A dataset in arrays.

    splits: by split, (inputs, labels). Inputs are uint8 (samples, channels, height, width) for the kind "images" and
    int32 (samples, length) for "tokens": an array, or any object with `shape`, `dtype` and slices along the first axis.
    Labels are int64 (samples,).
    vocabulary: what encoded the texts, if they were encoded here.
    """

    splits: dict[str, tuple[Any, np.ndarray]]
    class_names: list[str]
    kind: str = "images"
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True)
class ImageLists:
    """A dataset in image files.

    splits: by split, (path relative to `root`, label) of each image. passed_over: paths relative to `root` of hidden
    files and folders, and those that systems add, which are no part of it.
    """

    root: Path
    splits: dict[str, list[tuple[str, int]]]
    class_names: list[str]
    passed_over: list[str] = field(default_factory=list)
    kind: str = field(default="image_lists", init=False)


def drawn_share(samples: Iterable[Sample], share: float, seed: int, name: Callable[[Sample], object]) -> set[Sample]:
    """Draw a share of the samples of a class, at least one of them and not all.

    The samples are ranked by the SHA-256 of seed and name, and the first ones are taken: the draw is the same on every
    machine.
    """

    def rank(sample: Sample) -> bytes:
        return hashlib.sha256(normalize("NFC", f"{seed} {name(sample)}").encode()).digest()

    ranked = sorted(samples, key=rank)
    return set(ranked[: min(max(1, round(share * len(ranked))), len(ranked) - 1)])


def class_names_of(entry: Mapping) -> list[str]:
    """Class names of an entry; the labels as text if it has none."""
    return entry.get("class_names") or [str(label) for label in range(entry["classes"])]


def expect_each_class(where: Path, splits: Iterable[Iterable[int]], classes: int) -> None:
    """Raise DataError if no split has the label of a class: labels start at 1, or are -1 and 1, or a class is lost.

    where: the file of the training labels. splits: the labels of each split.
    """
    labels = {label for split in splits for label in split}
    missing = next((label for label in range(classes) if label not in labels), None)
    if labels and missing is not None:
        raise DataError(
            f"{where}: the labels of both splits run from {min(labels)} to {max(labels)} and lack {missing}; labels "
            f"count from 0, and each of 0 to {classes - 1} needs a training sample; renumber them in both splits, or "
            "correct the number of classes in the entry"
        )
