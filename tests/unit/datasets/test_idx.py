"""The IDX reader: what is whole comes back, and what is damaged says how, in one DataError."""

import gzip
import struct

import numpy as np
import pytest
from messages import message_of

from trainmark.datasets.formats.idx import FILES, read, read_idx
from trainmark.datasets.samples import Folders

ENTRY = {"format": "idx", "image_shape": [1, 4, 5], "classes": 10, "samples": {"train": 7, "test": 3}}


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(path, content: bytes):
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def small_dataset(seed: int = 0) -> dict:
    """{split: (images, labels)} of 7 and 3 images of 4 x 5, each of another class."""
    generator = np.random.default_rng(seed)
    return {
        split: (
            generator.integers(0, 256, (samples, 4, 5), dtype=np.uint8),
            np.arange(first, first + samples, dtype=np.uint8),
        )
        for split, first, samples in (("train", 0, 7), ("test", 7, 3))
    }


def write_dataset(folder, arrays) -> None:
    for split, files in FILES.items():
        for name, array in zip(files, arrays[split], strict=True):
            write(folder / name, idx_bytes(array))


def folders(raw) -> Folders:
    return Folders(raw, raw / "unpacked")


@pytest.mark.parametrize("names", [list("0123456789"), [f"class {number}" for number in range(10)]])
@pytest.mark.parametrize("is_own", [False, True])
def test_a_dataset_of_four_files(tmp_path, names, is_own):
    arrays = small_dataset()
    (tmp_path / "own").mkdir()
    write_dataset(tmp_path / ("own" if is_own else ""), arrays)
    changes = {"folder": str(tmp_path / "own")} if is_own else {}
    found = read(folders(tmp_path), {**ENTRY, **changes, "class_names": names})
    assert list(found.splits) == ["train", "test"]
    assert (found.kind, found.class_names) == ("images", names)
    for split, (images, labels) in found.splits.items():
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.array_equal(images, arrays[split][0][:, np.newaxis])
        assert np.array_equal(labels, arrays[split][1])


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("split", ["train", "test"])
def test_images_and_labels_that_do_not_go_together(tmp_path, split, exchanged):
    arrays = small_dataset()
    images, labels = arrays[split]
    arrays[split] = images, labels = (labels, images) if exchanged else (images, labels[:-1])
    write_dataset(tmp_path, arrays)
    image_file, label_file = FILES[split]
    held = f"{tmp_path}: {image_file} holds {images.shape} and {label_file} {labels.shape}; they must hold as many "
    assert message_of(read, folders(tmp_path), ENTRY).startswith(held)


GOOD = gzip.compress(idx_bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)), mtime=0)


def damaged(place: int) -> bytes:
    content = bytearray(GOOD)
    content[place] ^= 0xFF
    return bytes(content)


NO_IDX = [
    (b"", "is not an IDX file of unsigned bytes: it begins with nothing"),
    (b"\0\0\x0d\x01\0\0\0\0", "is not an IDX file of unsigned bytes: it begins with 00000d01"),  # floats
    (b"\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0", "is not an IDX file of unsigned bytes: it begins with 00000803"),
    (b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03", "announces 6 values of shape (2, 3) and holds 0"),
    (b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03" + b"x" * 7, "announces 6 values of shape (2, 3) and holds 7"),
]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is missing; the format idx needs train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-"),
        (GOOD[:-20], "is not a complete gzip file (Compressed file ended before the end-of-stream marker was reached)"),
        (b"<html></html>", "is not a complete gzip file (Not a gzipped file (b'<h')); delete it and get it again"),
        (damaged(12), "is not a complete gzip file ("),
        (damaged(-6), "is not a complete gzip file (CRC check failed"),
        *((gzip.compress(content, mtime=0), why) for content, why in NO_IDX),
    ],
)
def test_a_file_that_is_not_there_or_damaged(tmp_path, content, why):
    path = tmp_path / "a.gz"
    if content is not None:
        path.write_bytes(content)
    assert message_of(read_idx, path).startswith(f"{path} {why}")
