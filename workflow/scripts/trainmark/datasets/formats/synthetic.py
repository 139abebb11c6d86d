"""Generated images of any size and number, for tests and for measurements without a download.

Each class has a pattern that is drawn from the seed; an image is the pattern of its class plus noise, so that a network
can learn the classes. The pixels depend on the seed and the sizes alone.
"""

from collections.abc import Mapping

import numpy as np

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.samples import Arrays, Folders, class_names_of

FORMAT = {"kind": "images", "required": ["image_shape", "classes", "samples", "seed"], "optional": ["class_names"]}

COARSE = 4
"""A pattern has COARSE x COARSE patches, so that a crop or a small shift of an image still shows its class."""

NOISE_LEVELS = 64
"""Amplitude of the uniform noise, in grey levels. Patterns keep this distance from 0 and 255: nothing is clipped."""


class Images:
    """uint8 images (samples, channels, height, width), generated when a slice is taken, in constant memory."""

    dtype = np.dtype(np.uint8)

    def __init__(self, patterns: np.ndarray, labels: np.ndarray, seed: tuple[int, ...]) -> None:
        self._patterns, self._labels, self._seed = patterns, labels, seed
        self.shape = (len(labels), *patterns.shape[1:])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, part: slice) -> np.ndarray:
        return np.stack([self._image(index) for index in range(*part.indices(len(self)))])

    def _image(self, index: int) -> np.ndarray:
        noise = np.random.default_rng([*self._seed, index]).integers(
            -NOISE_LEVELS, NOISE_LEVELS, self.shape[1:], np.int16, endpoint=True
        )
        return np.asarray(self._patterns[self._labels[index]] + noise, np.uint8)


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The images of an entry, with labels 0, 1, 2, ... in turn. No file is read; `folders` is not used."""
    seed = entry["seed"]
    patterns = _patterns(entry["classes"], entry["image_shape"], seed)
    splits = {}
    for number, split in enumerate(SPLITS):
        labels = np.arange(entry["samples"][split], dtype=np.int64) % entry["classes"]
        splits[split] = (Images(patterns, labels, (seed, 1, number)), labels)
    return Arrays(splits, class_names_of(entry))


def _patterns(classes: int, image_shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """int16 (classes, channels, height, width): the pattern of each class, of patches with one grey level each."""
    channels, height, width = image_shape
    levels = np.random.default_rng([seed, 0]).integers(
        NOISE_LEVELS, 256 - NOISE_LEVELS, (classes, channels, COARSE, COARSE), np.int16
    )
    rows, columns = (np.arange(side) * COARSE // side for side in (height, width))
    return levels[:, :, rows[:, np.newaxis], columns]
