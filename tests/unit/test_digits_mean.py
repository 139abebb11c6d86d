"""The digits that scikit-learn carries, and the mean image: exact, whatever the order."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from trainmark import prepared
from trainmark.config import REPOSITORY, read_yaml
from trainmark.datasets import read_dataset
from trainmark.mean_image import BLOCK, mean_image, save_picture

ENTRY = read_yaml(REPOSITORY / "config" / "datasets.yaml")["digits"]


@pytest.fixture(scope="module")
def arrays() -> dict:
    return read_dataset(Path("not-there"), ENTRY)


def test_counts_shapes_and_types(arrays):
    assert {split: len(labels) for split, (_, labels) in arrays.items()} == {"train": 1438, "test": 359}
    for images, labels in arrays.values():
        assert images.shape == (len(labels), 1, 28, 28)
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.unique(labels).tolist() == list(range(10))
        assert images.min() == 0 and images.max() >= 250


def test_it_is_what_the_catalogue_says(arrays):
    prepared.check("digits", ENTRY, arrays)


def test_it_is_the_same_every_time(arrays):
    for split, (images, labels) in read_dataset(Path("elsewhere"), ENTRY).items():
        assert np.array_equal(images, arrays[split][0])
        assert np.array_equal(labels, arrays[split][1])


def test_every_fifth_image_is_a_test_image(arrays):
    target = load_digits().target
    assert np.array_equal(arrays["test"][1], target[4::5])
    assert arrays["train"][1][:6].tolist() == [target[i] for i in (0, 1, 2, 3, 5, 6)]


def test_grey_levels_at_the_stored_size_are_those_of_scikit_learn():
    stored = read_dataset(Path("x"), {**ENTRY, "image_shape": [1, 8, 8]})
    digits = load_digits().images
    assert np.array_equal(stored["test"][0][:, 0], np.rint(digits[4::5] * 255 / 16).astype(np.uint8))
    assert stored["test"][0].max() == 255, "16 of 16 is white"


def test_scaling_up_keeps_the_picture(arrays):
    digits = load_digits().images[4::5] * 255 / 16
    scaled = arrays["test"][0][:, 0].astype(np.float64)
    correlation = [
        np.corrcoef(np.kron(small, np.ones((7, 7))).ravel(), np.kron(large, np.ones((2, 2))).ravel())[0, 1]
        for small, large in zip(digits, scaled, strict=True)
    ]
    assert min(correlation) > 0.8, "neither turned nor mirrored"


# --- the mean image -----------------------------------------------------------------------------------------------


def test_the_mean_is_exact(arrays):
    images = arrays["train"][0]
    mean = mean_image(images)
    assert mean.dtype == np.float64 and mean.shape == (1, 28, 28)
    assert np.array_equal(mean, images.astype(np.float64).mean(axis=0))


@pytest.mark.parametrize("samples", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_the_mean_is_exact_over_several_blocks_and_in_any_order(samples):
    generator = np.random.default_rng(samples)
    images = generator.integers(0, 256, (samples, 3, 2, 2), dtype=np.uint8)
    mean = mean_image(images)
    sums = [sum(int(value) for value in images[:, channel, 1, 0]) for channel in range(3)]
    assert mean[:, 1, 0].tolist() == [total / samples for total in sums]
    assert np.array_equal(mean, images.sum(axis=0, dtype=np.int64) / samples)
    assert np.array_equal(mean, mean_image(images[generator.permutation(samples)]))


def test_sums_beyond_the_precision_of_float32_are_exact():
    images = np.random.default_rng(0).integers(128, 256, (150_001, 1, 1, 3), dtype=np.uint8)
    sums = images.sum(axis=0, dtype=np.int64)
    assert sums.min() > 2**24
    assert np.array_equal(mean_image(images), sums / 150_001)


def test_bright_images_do_not_overflow():
    assert np.array_equal(mean_image(np.full((BLOCK + 7, 1, 2, 2), 255, np.uint8)), np.full((1, 2, 2), 255.0))


@pytest.mark.parametrize(
    ("shape", "size", "mode"),
    [
        ((1, 28, 28), (224, 224), "L"),
        ((3, 10, 20), (220, 110), "RGB"),
        ((3, 100, 224), (224, 100), "RGB"),
        ((1, 300, 250), (250, 300), "L"),
    ],
)
def test_the_picture(tmp_path, shape, size, mode):
    mean = np.random.default_rng(0).uniform(0, 255, shape)
    save_picture(mean, tmp_path / "mean.png")
    with Image.open(tmp_path / "mean.png") as picture:
        assert (picture.format, picture.size, picture.mode) == ("PNG", size, mode)
        pixels = np.asarray(picture)
    factor = size[0] // shape[2]
    channels_last = np.rint(np.moveaxis(mean, 0, -1)).astype(np.uint8)
    assert np.array_equal(pixels.reshape(*size[::-1], shape[0])[::factor, ::factor], channels_last)
