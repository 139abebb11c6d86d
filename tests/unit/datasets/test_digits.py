"""The digits that scikit-learn carries: split, scaled up, and the same every time."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from trainmark.config.load import REPOSITORY, read_yaml
from trainmark.datasets.prepare import prepare, read_dataset
from trainmark.datasets.samples import Folders

ENTRY = read_yaml(REPOSITORY / "config" / "datasets.yaml")["digits"]
FOLDERS = Folders(Path("not-there"), Path("nor-there"))


@pytest.fixture(scope="module")
def arrays() -> dict:
    return read_dataset(FOLDERS, ENTRY).splits


def test_counts_shapes_and_types(arrays, tmp_path):
    for images, labels in arrays.values():
        assert images.shape == (len(labels), 1, 28, 28)
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.unique(labels).tolist() == list(range(10))
        assert images.min() == 0 and images.max() >= 250
    manifest = prepare(tmp_path, "digits", ENTRY, read_dataset(FOLDERS, ENTRY), [], 1)
    assert manifest["class_names"] == list("0123456789") and manifest["samples"] == {"train": 1438, "test": 359}


def test_every_fifth_image_is_a_test_image_with_the_grey_levels_of_scikit_learn(arrays):
    stored = read_dataset(FOLDERS, {**ENTRY, "image_shape": [1, 8, 8]}).splits["test"]
    digits = load_digits()
    assert np.array_equal(stored[0][:, 0], np.rint(digits.images[4::5] * 255 / 16).astype(np.uint8))
    assert stored[0].max() == 255, "16 of 16 is white"
    assert np.array_equal(arrays["test"][1], digits.target[4::5])
    assert arrays["train"][1][:6].tolist() == [digits.target[i] for i in (0, 1, 2, 3, 5, 6)]
