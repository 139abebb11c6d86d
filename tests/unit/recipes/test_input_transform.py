"""Network inputs: (window - mean window) * scale of an image, in float64, rounded once; token ids as they are."""

import numpy as np
import pytest

from trainmark.recipes.input_transform import centre_window, network_inputs
from trainmark.recipes.recipe import InputTransform

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 2, 7, 9), dtype=np.uint8)
MEAN = np.random.default_rng(1).uniform(0, 255, (2, 7, 9))


@pytest.mark.parametrize(
    ("image_shape", "crop", "window"),
    [((28, 28), None, (0, 0, 28, 28)), ((28, 28), (24, 20), (2, 4, 24, 20)), ((29, 31), (28, 28), (0, 1, 28, 28))],
)
def test_centre_window(image_shape, crop, window):
    assert centre_window(image_shape, crop) == window


NO_MEAN = np.full((2, 7, 9), np.nan)
WINDOW = IMAGES[:, :, 2:5, 2:6].astype(np.float64)


@pytest.mark.parametrize(
    ("mean", "transform", "expected"),
    [
        (MEAN, InputTransform(scale=0.5, subtract_mean=True), (IMAGES.astype(np.float64) - MEAN) * 0.5),
        (MEAN, InputTransform(scale=1.0, subtract_mean=True, mean_window="top-left"), IMAGES - MEAN),
        (NO_MEAN, InputTransform(scale=2.0), IMAGES * 2.0),
        (NO_MEAN, InputTransform(scale=1.0, crop=(3, 4)), WINDOW),
        (MEAN, InputTransform(scale=1.0, subtract_mean=True, crop=(3, 4)), WINDOW - MEAN[:, 2:5, 2:6]),
        (
            MEAN,
            InputTransform(scale=1.0, subtract_mean=True, crop=(3, 4), mean_window="top-left"),  # as in ChainerMN
            WINDOW - MEAN[:, :3, :4],
        ),
    ],
)
def test_the_window_less_that_of_the_mean_times_the_scale(mean, transform, expected):
    assert np.array_equal(network_inputs(IMAGES, mean, transform, "float64"), expected)


def test_float64_arithmetic_rounded_once():
    found = network_inputs(IMAGES, MEAN, InputTransform(subtract_mean=True), "float32")
    assert found.dtype == np.float32
    assert np.array_equal(found, ((IMAGES.astype(np.float64) - MEAN) * (1 / 255)).astype(np.float32))
    in_float32 = (IMAGES.astype(np.float32) - MEAN.astype(np.float32)) * np.float32(1 / 255)
    assert not np.array_equal(found, in_float32), "the test would see float32 arithmetic"


@pytest.mark.parametrize("samples", [4096, 4097])
def test_more_samples_than_a_block(samples):
    images = np.random.default_rng(2).integers(0, 256, (samples, 1, 2, 3), dtype=np.uint8)
    mean = images.mean(axis=0)
    found = network_inputs(images, mean, InputTransform(scale=0.25, subtract_mean=True), "float64")
    assert np.array_equal(found, (images.astype(np.float64) - mean) * 0.25)


# --- network inputs -----------------------------------------------------------------------------------------------


def test_token_ids_are_copied_into_memory_and_stay_integers(tmp_path):
    ids = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.save(tmp_path / "ids.npy", ids)
    found = network_inputs(np.load(tmp_path / "ids.npy", mmap_mode="r"), None, None, "float32")
    assert type(found) is np.ndarray and found.dtype == np.int32 and found.flags.writeable
    assert np.array_equal(found, ids)
