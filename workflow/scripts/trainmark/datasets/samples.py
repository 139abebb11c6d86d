"""What a format returns: the samples of a dataset, in arrays or in image files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.datasets.tokens import Vocabulary


@dataclass(frozen=True)
class Folders:
    """Where a format reads from.

    raw: the downloaded files. unpacked: where it may unpack archives; kept between attempts. base: the prepared
    folder of the dataset that this one is taken from, or None.
    """

    raw: Path
    unpacked: Path
    base: Path = None  # type: ignore[assignment]  # only a subset's format asks for it


@dataclass(frozen=True)
class Arrays:
    """A dataset in arrays: by split, (inputs, labels int64 (samples,)).

    Inputs are uint8 (samples, channels, height, width) for the kind "images" and int32 (samples, length) for
    "tokens"; anything with `shape`, `dtype` and slices along the first axis will do. vocabulary: what turns a text into
    such token ids, where the dataset's texts were encoded here.
    """

    splits: dict[str, tuple[Any, np.ndarray]]
    class_names: list[str]
    kind: str = "images"
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True)
class ImageLists:
    """A dataset in image files: by split, (path relative to `root`, label) of each image."""

    root: Path
    splits: dict[str, list[tuple[str, int]]]
    class_names: list[str]
    kind: str = field(default="image_lists", init=False)


def class_names_of(entry: Mapping) -> list[str]:
    """The entry's class names, or the labels themselves where it has none."""
    return entry.get("class_names") or [str(label) for label in range(entry["classes"])]
