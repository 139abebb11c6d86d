"""The mean image of a training set: exact, by integer sums, whatever the order."""

from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

BLOCK = 4096
"""Images summed at a time: bounds memory; integer sums make the result independent of it."""


def mean_image(images: np.ndarray) -> np.ndarray:
    """Mean over the first axis of uint8 images (samples, channels, height, width), float64.

    uint64 sums hold 2**56 images; dividing once rounds once.
    """
    total = np.zeros(images.shape[1:], np.uint64)
    for start in tqdm(range(0, len(images), BLOCK), desc="mean image", unit="block", disable=None):
        total += images[start : start + BLOCK].sum(axis=0, dtype=np.uint64)
    return total / np.float64(len(images))


def save_picture(mean: np.ndarray, path: Path) -> None:
    """The mean image as a PNG a person can look at: grey for one channel, RGB for three; small ones enlarged."""
    pixels = np.rint(mean).astype(np.uint8)
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
    factor = max(1, 224 // picture.width)
    size = (picture.width * factor, picture.height * factor)
    picture.resize(size, Image.Resampling.NEAREST).save(path)
