"""The packed store: the images as they are decoded, in their order, and nothing else is taken for one."""

import io
import pickle
import shutil
from collections import namedtuple

import numpy as np
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.images.packed import IMAGE_BYTES, IMAGE_SHAPE, open_store, pack
from trainmark.files.disk import RESERVE_BYTES

AGAIN = "delete it and run snakemake again"


@pytest.fixture
def paths(tmp_path):
    """Twenty images, more than one chunk."""
    generator = np.random.default_rng(0)
    paths = [tmp_path / "images" / f"{number:02}.jpg" for number in range(20)]
    paths[0].parent.mkdir()
    for path in paths:
        Image.fromarray(generator.integers(0, 256, (3, 4, 3), dtype=np.uint8)).resize((300, 270)).save(path)
    return paths


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "packed"
    folder.mkdir()
    return folder / "train.npy"


@pytest.mark.parametrize("workers", [1, 4])
def test_every_image_comes_back_pixel_by_pixel(paths, out, workers):
    pack(paths, out, workers)
    store = open_store(out)
    assert isinstance(store, np.memmap) and not store.flags.writeable
    assert store.dtype == np.uint8 and store.shape == (20, *IMAGE_SHAPE)
    for pixels, path in zip(store, paths, strict=True):
        assert np.array_equal(pixels, load_stored(path))
    assert [path.name for path in out.parent.iterdir()] == ["train.npy"]
    assert 0 < out.stat().st_size - 20 * IMAGE_BYTES < 256, "a header, and not one byte more"


def test_a_disk_that_is_too_small_is_not_filled(paths, out, monkeypatch):
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, RESERVE_BYTES + 20 * IMAGE_BYTES - 1))
    needs = f"the packed store {out} needs 3.8 MiB more and a reserve of 64.0 MiB, "
    assert message_of(pack, paths, out, 2).startswith(needs)
    assert list(out.parent.iterdir()) == []


def test_an_image_that_was_damaged_leaves_no_store(paths, out):
    paths[10].write_bytes(b"")
    assert message_of(pack, paths, out, 2).startswith(f"{paths[10]}: empty file; it could be decoded when ")
    assert list(out.parent.iterdir()) == []


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


WHOLE = npy(np.zeros((2, *IMAGE_SHAPE), np.uint8))
NO_STORES = {
    "empty": b"",
    "text": b"no store",
    "pickle": pickle.dumps([1, 2, 3]),
    "missing": None,
    "cut off in its header": WHOLE[:40],
    "cut off in its images": WHOLE[:-1],
    "brackets left open in its header": WHOLE.replace(b")", b"(", 1),
    "objects": npy(np.array([print, None], object)),
    "another shape": npy(np.zeros((2, 3, 256, 256), np.uint8)),
    "another type": npy(np.zeros((2, *IMAGE_SHAPE), np.int8)),
}


@pytest.mark.parametrize("content", NO_STORES.values(), ids=NO_STORES)
def test_what_is_no_whole_store_is_refused(out, content):
    if content is not None:
        out.write_bytes(content)
    message = message_of(open_store, out)
    assert message.startswith(str(out)) and "packed store" in message and message.endswith(f"; {AGAIN}")
