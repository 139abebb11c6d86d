"""Generated images: the same for a seed, of any shape, in constant memory, and classes that can be told apart."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from trainmark.datasets.formats.synthetic import read
from trainmark.datasets.samples import Folders

FOLDERS = Folders(Path("not-there"), Path("nor-there"))
SHAPES = [(1, 28, 28), (3, 256, 256), (2, 5, 3), (1, 1, 1)]


def entry(shape=(1, 28, 28), classes=10, train=40, test=20, seed=1) -> dict:
    return {
        "title": "Generated", "format": "synthetic", "image_shape": list(shape), "classes": classes,
        "samples": {"train": train, "test": test}, "seed": seed,
    }  # fmt: skip


def images_of(split="train", **options) -> np.ndarray:
    return read(FOLDERS, entry(**options)).splits[split][0][:]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape(shape):
    dataset = read(FOLDERS, entry(shape))
    assert (dataset.kind, dataset.class_names) == ("images", [str(label) for label in range(10)])
    assert read(FOLDERS, {**entry(shape, 2), "class_names": ["x", "y"]}).class_names == ["x", "y"]
    for split, samples in (("train", 40), ("test", 20)):
        images, labels = dataset.splits[split]
        assert images.shape == (samples, *shape) and len(images) == samples and images.dtype == np.uint8
        assert images[:].shape == (samples, *shape) and images[:].dtype == np.uint8
        assert labels.dtype == np.int64 and labels.tolist() == [number % 10 for number in range(samples)]


def test_the_same_every_time_and_with_any_slices():
    whole = images_of()
    assert len({image.tobytes() for image in whole}) == len(whole), "every image is another"
    for others in (images_of("test"), images_of(seed=2)[:20]):
        assert not np.array_equal(others, whole[:20])
    again = read(FOLDERS, entry()).splits["train"][0]
    assert np.array_equal(np.concatenate([again[30:40], again[0:7], again[7:30]]), np.roll(whole, 10, axis=0))
    assert np.array_equal(images_of(train=30), whole[:30]), "more images do not change the first ones"


def test_one_choice_of_pixels_is_written_here():
    """What changes it changes every result that was measured on generated images."""
    assert images_of(shape=(1, 2, 2), train=2).reshape(2, 4).tolist() == [[152, 160, 87, 124], [157, 102, 163, 132]]


def test_many_images_take_constant_memory():
    few, many = (read(FOLDERS, entry((3, 256, 256), train=samples)).splits["train"][0] for samples in (100, 100_000))
    tracemalloc.start()
    assert many[99_990:100_000].shape == (10, 3, 256, 256)
    assert tracemalloc.get_traced_memory()[1] < 10 * few[:1].nbytes * 6
    tracemalloc.stop()
