"""Generated images of any size and number: for tests, and for measurements that no download should hold up.

Every class has a pattern, drawn from the seed; an image is its class's pattern under noise. A network learns to tell
them apart, and nothing but the seed and the sizes decides a single pixel.
"""

from collections.abc import Mapping

import numpy as np

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.samples import Arrays, Folders, class_names_of

FORMAT = {"kind": "images", "required": ["image_shape", "classes", "samples", "seed"], "optional": ["class_names"]}

COARSE = 4
"""A pattern is COARSE x COARSE patches: a crop or a small shift of an image still shows its class."""

NOISE_LEVELS = 64
"""Noise, uniform, in grey levels to either side; patterns take the levels between, so that nothing is cut off."""


class Images:
    """uint8 images (samples, channels, height, width), made when a slice is taken: any number in constant memory."""

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
    """The images of an entry; no file is read, `folders` are not used. Labels go round the classes."""
    seed = entry["seed"]
    patterns = _patterns(entry["classes"], entry["image_shape"], seed)
    splits = {}
    for number, split in enumerate(SPLITS):
        labels = np.arange(entry["samples"][split], dtype=np.int64) % entry["classes"]
        splits[split] = (Images(patterns, labels, (seed, 1, number)), labels)
    return Arrays(splits, class_names_of(entry))


def _patterns(classes: int, image_shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """int16 (classes, channels, height, width), each class of patches of one grey level."""
    channels, height, width = image_shape
    levels = np.random.default_rng([seed, 0]).integers(
        NOISE_LEVELS, 256 - NOISE_LEVELS, (classes, channels, COARSE, COARSE), np.int16
    )
    rows, columns = (np.arange(side) * COARSE // side for side in (height, width))
    return levels[:, :, rows[:, np.newaxis], columns]
