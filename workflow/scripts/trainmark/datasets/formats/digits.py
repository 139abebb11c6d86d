"""The 1,797 handwritten digits that scikit-learn carries (UCI Optical Recognition of Handwritten Digits, test part)."""

from collections.abc import Mapping

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from trainmark.datasets.samples import Arrays, Folders, class_names_of

FORMAT = {
    "kind": "images",
    "required": ["embedded_in", "image_shape", "classes", "samples"],
    "optional": ["class_names"],
}

TEST_EVERY = 5
"""Every fifth image is a test image. The set has no split of its own, and its images are ordered by writer."""

GREY_LEVELS = 16
"""The 8x8 images count set pixels in 4x4 blocks: 0 to 16."""


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The digits, scaled up bilinearly to the entry's `image_shape`. No file is read; `folders` is not used."""
    digits = load_digits()
    height, width = entry["image_shape"][1:]
    grey = np.rint(digits.images * (255 / GREY_LEVELS)).astype(np.uint8)
    scaled = [np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)) for image in grey]
    images = np.stack(scaled)[:, np.newaxis]
    labels = digits.target.astype(np.int64)
    test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
    splits = {"train": (images[~test], labels[~test]), "test": (images[test], labels[test])}
    return Arrays(splits, class_names_of(entry))
