"""The mean image: exact for any order, any number of workers, from files, packed or arrays, and after any stop."""

import io
import os
import pickle
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from messages import message_of
from PIL import Image
from test_encoded_reviews import Gadget

from trainmark.config.load import REPOSITORY
from trainmark.datasets.images import lists as image_lists
from trainmark.datasets.images import mean as mean_image
from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.images.lists import CHUNK
from trainmark.datasets.images.mean import BLOCK, Checkpoint, mean_of_dataset, mean_of_files, save_mean, save_picture
from trainmark.datasets.images.packed import IMAGE_SHAPE, pack
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, ImageLists

PHOTOGRAPHS = REPOSITORY.parent / "shared" / "data" / "imagenet-sample"
KEY = "c" * 64


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


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "mean.partial.npz", KEY)


def mean_by_definition(paths) -> np.ndarray:
    return sum(load_stored(path).astype(np.int64) for path in paths) / len(paths)


@pytest.mark.parametrize("samples", [1, BLOCK, 2 * BLOCK + 3])
def test_the_mean_is_exact_over_several_blocks_and_in_any_order(samples):
    generator = np.random.default_rng(samples)
    images = generator.integers(0, 256, (samples, 3, 2, 2), dtype=np.uint8)
    mean = mean_image.mean_image(images)
    sums = [sum(int(value) for value in images[:, channel, 1, 0]) for channel in range(3)]
    assert mean.dtype == np.float64 and mean[:, 1, 0].tolist() == [total / samples for total in sums]
    assert np.array_equal(mean, images.sum(axis=0, dtype=np.int64) / samples)
    assert np.array_equal(mean, mean_image.mean_image(images[generator.permutation(samples)]))


def test_sums_beyond_the_precision_of_float32_are_exact():
    images = np.random.default_rng(0).integers(128, 256, (150_001, 1, 1, 3), dtype=np.uint8)
    sums = images.sum(axis=0, dtype=np.int64)
    assert sums.min() > 2**24
    assert np.array_equal(mean_image.mean_image(images), sums / 150_001)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_mean_of_files_is_exact_for_any_number_of_workers(paths, checkpoint, workers):
    mean = mean_of_files(paths, workers, checkpoint)
    assert mean.dtype == np.float64 and mean.shape == IMAGE_SHAPE
    assert np.array_equal(mean, mean_by_definition(paths))


def test_white_images_do_not_overflow(tmp_path, checkpoint):
    Image.new("RGB", (9, 9), "white").save(tmp_path / "white.png")
    assert np.array_equal(mean_of_files([tmp_path / "white.png"] * 300, 2, checkpoint), np.full(IMAGE_SHAPE, 255.0))


@pytest.fixture
def dataset(paths, tmp_path):
    """The prepared dataset of the images."""
    entries = [(path.name, number % 2) for number, path in enumerate(paths)]
    splits = {"train": entries[:-2], "test": entries[-2:]}
    folder = tmp_path / "results" / "prepared"
    folder.parent.mkdir()
    prepare(folder, "mine", {"title": "Mine", "format": "f"}, ImageLists(paths[0].parent, splits, ["a", "b"]), [], 2)
    return folder


def test_packed_images_and_files_give_the_same_mean_to_the_last_bit(paths, dataset, tmp_path):
    pack(paths[:-2], tmp_path / "train.npy", 2)
    of_files = mean_of_dataset(dataset, None, 2, tmp_path / "partial.npz")
    of_packed = mean_of_dataset(dataset, tmp_path / "train.npy", 2, tmp_path / "partial.npz")
    assert of_files.shape == (3, 256, 256) and of_files.flags.c_contiguous
    assert of_files.tobytes() == of_packed.tobytes()
    assert np.array_equal(of_files, np.moveaxis(mean_by_definition(paths[:-2]), -1, 0)), "of the training images alone"


def test_an_array_dataset_has_its_mean_too(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (9, 2, 4, 5), dtype=np.uint8)
    arrays = Arrays(dict.fromkeys(("train", "test"), (images, np.zeros(9, np.int64))), ["a"])
    prepare(tmp_path / "prepared", "mine", {"title": "M", "format": "f", "image_shape": [2, 4, 5]}, arrays, [], 1)
    assert np.array_equal(mean_of_dataset(tmp_path / "prepared", None, 1, tmp_path / "p.npz"), images.mean(axis=0))


def test_a_file_that_is_damaged_by_now_is_named(paths, checkpoint):
    paths[30].write_bytes(b"no image")
    message = message_of(mean_of_files, paths, 2, checkpoint)
    assert message.startswith(f"{paths[30]}: not an image; it could be decoded when it was prepared: ")


@pytest.mark.real_data
@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason=f"{PHOTOGRAPHS.name} is not beside the repository")
def test_the_mean_of_photographs_is_that_of_pillow_within_a_grey_level(checkpoint):
    photographs = sorted(PHOTOGRAPHS.glob("*/*"))
    expected = np.zeros(IMAGE_SHAPE)
    for path in photographs:
        with Image.open(path) as image:
            expected += np.asarray(image.convert("RGB").resize(IMAGE_SHAPE[:2], Image.Resampling.BILINEAR))
    error = mean_of_files(photographs, 2, checkpoint) - expected / len(photographs)
    assert np.abs(error).max() < 1 and abs(error.mean()) < 0.05


@pytest.fixture
def decoded(monkeypatch):
    """The files that are decoded from here on, in threads: as a list that grows."""
    files = []

    def load(path):
        files.append(path)
        return load_stored(path)

    monkeypatch.setattr(image_lists, "load_stored", load)
    return files


@pytest.mark.parametrize("workers", [1, 4])
def test_a_stopped_sum_goes_on_from_its_checkpoint(paths, checkpoint, decoded, monkeypatch, workers):
    whole = mean_of_files(paths, workers, checkpoint)
    assert not checkpoint.path.exists(), "a checkpoint after so few images would cost more than it saves"
    monkeypatch.setattr(mean_image, "CHECKPOINT_IMAGES", CHUNK)
    kept = paths[40].read_bytes()
    paths[40].write_bytes(b"")
    message_of(mean_of_files, paths, workers, checkpoint)
    assert checkpoint.load()[0] == 2 * CHUNK, "the chunk of image 40 is the third"
    paths[40].write_bytes(kept)
    decoded.clear()
    assert mean_of_files(paths, workers, checkpoint).tobytes() == whole.tobytes()
    assert sorted(decoded) == paths[2 * CHUNK :]
    monkeypatch.setattr(mean_image, "CHECKPOINT_IMAGES", 1)
    for left in (paths[3 * CHUNK :], []):
        decoded.clear()
        assert mean_of_files(paths, workers, checkpoint).tobytes() == whole.tobytes()
        assert decoded == left, "a finished sum is not begun again"


def test_a_killed_process_goes_on_from_its_checkpoint(paths, checkpoint, decoded):
    """SIGKILL leaves no time to write anything."""
    program = f"""
import os, signal
from pathlib import Path
from trainmark.datasets.images import mean
mean.CHECKPOINT_IMAGES = 16
save = mean.Checkpoint.save
def save_and_be_killed(checkpoint, done, total):
    save(checkpoint, done, total)
    if done == 32:
        os.kill(os.getpid(), signal.SIGKILL)
mean.Checkpoint.save = save_and_be_killed
paths = sorted(Path({str(paths[0].parent)!r}).iterdir())
mean.mean_of_files(paths, 2, mean.Checkpoint(Path({str(checkpoint.path)!r}), {KEY!r}))
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow" / "scripts")}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == -signal.SIGKILL
    assert checkpoint.load()[0] == 32
    assert np.array_equal(mean_of_files(paths, 2, checkpoint), mean_by_definition(paths))
    assert sorted(decoded) == paths[32:]


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


GADGET = Gadget(os.mkdir, "unpickled")
ONES = np.ones(IMAGE_SHAPE, np.uint64)
WHOLE = npz(key=KEY, done=16, total=ONES)
SPOILED = {
    "damaged": WHOLE[:700_000] + bytes([WHOLE[700_000] ^ 1]) + WHOLE[700_001:],
    "cut off": WHOLE[:-100],
    "emptied": b"",
    "of another list": npz(key="d" * 64, done=16, total=ONES),
    "of another shape": npz(key=KEY, done=16, total=np.ones((3, 256, 256), np.uint64)),
    "of another type": npz(key=KEY, done=16, total=np.ones(IMAGE_SHAPE, np.float32)),
    "without its key": npz(done=16, total=ONES),
    "a pickle": pickle.dumps(GADGET),
    "pickles inside": npz(key=KEY, done=np.array(GADGET, object), total=np.array(GADGET, object)),
}


@pytest.mark.parametrize("content", [WHOLE, *SPOILED.values()], ids=["whole", *SPOILED])
def test_a_checkpoint_is_used_if_it_is_whole_and_of_this_list(paths, checkpoint, decoded, monkeypatch, content):
    monkeypatch.chdir(checkpoint.path.parent)
    checkpoint.path.write_bytes(content)
    mean = mean_of_files(paths[:20], 2, checkpoint)
    assert sorted(decoded) == (paths[16:20] if content == WHOLE else paths[:20])
    assert content == WHOLE or np.array_equal(mean, mean_by_definition(paths[:20]))
    assert not checkpoint.path.with_name("unpickled").exists()


def test_no_damage_to_a_checkpoint_raises_or_brings_a_wrong_sum(checkpoint):
    checkpoint.save(16, np.full(IMAGE_SHAPE, 7, np.uint64))
    whole = checkpoint.path.read_bytes()
    generator = np.random.default_rng(0)
    spots = [*range(700), *range(len(whole) - 1000, len(whole))]  # the headers, and the directory at the end
    used = 0
    for number in range(150):
        content = bytearray(whole)
        for spot in generator.choice(spots, generator.integers(1, 4)):
            content[spot] = generator.integers(256)
        checkpoint.path.write_bytes(content if number % 4 else whole[: generator.integers(len(whole))])
        done, total = checkpoint.load()
        assert (done, total.min(), total.max()) in [(0, 0, 0), (16, 7, 7)]
        used += done > 0
    assert used < 40, "damage that matters is found"


def test_a_checkpoint_is_replaced_in_one_step(checkpoint):
    for done in (16, 32):
        checkpoint.save(done, np.full(IMAGE_SHAPE, done, np.uint64))
        found, total = checkpoint.load()
        assert (found, int(total.max()), total.dtype) == (done, done, np.uint64)
    assert [path.name for path in checkpoint.path.parent.iterdir()] == [checkpoint.path.name]


def test_what_is_saved_comes_back_and_a_disk_that_is_too_small_is_not_filled(tmp_path, monkeypatch):
    mean = np.random.default_rng(0).uniform(0, 255, (3, 4, 5))
    save_mean(mean, tmp_path / "mean.npy")
    found = np.load(tmp_path / "mean.npy", allow_pickle=False)
    assert found.dtype == np.float64 and np.array_equal(found, mean)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    message = message_of(save_mean, mean, tmp_path / "other.npy")
    assert message.startswith(f"the mean image {tmp_path}/other.npy needs 480 bytes more and a reserve of 64.0 MiB")
    assert not (tmp_path / "other.npy").exists()


@pytest.mark.parametrize(
    ("shape", "size"),
    [((1, 28, 28), (224, 224)), ((3, 10, 20), (220, 110)), ((1, 300, 250), (250, 300)), ((2, 300, 250), (250, 300))],
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
