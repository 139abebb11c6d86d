"""The mean image: exact for any order and any number of workers, from files, packed or arrays."""

import numpy as np
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.images.mean import BLOCK, mean_image, mean_of_dataset, mean_of_files, save_picture
from trainmark.datasets.images.packed import pack
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import ImageLists


@pytest.fixture
def paths(tmp_path):
    """Fifty images: four chunks, the last one of two."""
    generator = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(50):
        small = Image.fromarray(generator.integers(0, 256, (5, 4, 3), dtype=np.uint8))
        small.resize(tuple(generator.integers(200, 400, 2)), Image.Resampling.BICUBIC).save(folder / f"{number:02}.jpg")
    return sorted(folder.iterdir())


def mean_by_definition(paths) -> np.ndarray:
    return sum(load_stored(path).astype(np.int64) for path in paths) / len(paths)


@pytest.mark.parametrize(("samples", "least"), [(1, 0), (BLOCK, 0), (2 * BLOCK + 3, 0), (150_001, 128)])
def test_the_mean_is_exact_over_several_blocks_and_in_any_order(samples, least):
    """Sums of the last one are beyond the precision of float32."""
    generator = np.random.default_rng(samples)
    images = generator.integers(least, 256, (samples, 3, 2, 2), dtype=np.uint8)
    mean = mean_image(images)
    assert mean.dtype == np.float64
    assert np.array_equal(mean, images.sum(axis=0, dtype=np.int64) / samples)
    assert np.array_equal(mean, mean_image(images[generator.permutation(samples)]))


@pytest.mark.parametrize("workers", [1, 4])
def test_packed_images_and_files_give_the_same_exact_mean(paths, tmp_path, workers):
    entries = [(path.name, number % 2) for number, path in enumerate(paths)]
    lists = ImageLists(paths[0].parent, {"train": entries[:-2], "test": entries[-2:]}, ["a", "b"])
    folder = tmp_path / "results" / "prepared"
    folder.parent.mkdir()
    prepare(folder, "mine", {"title": "Mine", "format": "f"}, lists, [], workers)
    pack(paths[:-2], tmp_path / "train.npy", workers)
    of_files = mean_of_dataset(folder, None, workers)
    of_packed = mean_of_dataset(folder, tmp_path / "train.npy", workers)
    assert of_files.shape == (3, 256, 256) and of_files.flags.c_contiguous and of_files.dtype == np.float64
    assert of_files.tobytes() == of_packed.tobytes()
    assert np.array_equal(of_files, np.moveaxis(mean_by_definition(paths[:-2]), -1, 0)), "of the training images alone"


def test_a_file_that_is_damaged_by_now_is_named(paths):
    paths[30].write_bytes(b"no image")
    message = message_of(mean_of_files, paths, 2)
    assert (
        message.startswith(f"{paths[30]}: not an image (") and "; it could be decoded when it was prepared: " in message
    )


@pytest.mark.parametrize(
    ("shape", "size"), [((1, 28, 28), (224, 224)), ((3, 10, 20), (220, 110)), ((2, 3, 250), (250, 3))]
)
def test_the_picture(tmp_path, shape, size):
    mean = np.random.default_rng(0).uniform(0, 255, shape)
    save_picture(mean, tmp_path / "mean.png")
    with Image.open(tmp_path / "mean.png") as picture:
        assert (picture.format, picture.size, picture.mode) == ("PNG", size, "RGB" if shape[0] == 3 else "L")
        pixels = np.asarray(picture)
    expected = np.moveaxis(mean, 0, -1) if shape[0] == 3 else mean.mean(axis=0)
    factor = size[0] // shape[2]
    assert np.array_equal(pixels[::factor, ::factor], np.rint(expected).astype(np.uint8))
