"""The IDX reader: what is whole comes back, and what is damaged says how, in one DataError."""

import gzip
import struct

import numpy as np
import pytest

from trainmark.datasets import known_formats, read_dataset
from trainmark.datasets.idx import FILES, read, read_idx
from trainmark.errors import DataError

ENTRY = {"format": "idx"}


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(path, content: bytes):
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def small_dataset(seed: int = 0) -> dict:
    """{split: (images, labels)} of 7 and 3 images of 4 x 5."""
    generator = np.random.default_rng(seed)
    return {
        split: (
            generator.integers(0, 256, (samples, 4, 5), dtype=np.uint8),
            generator.integers(0, 10, samples, dtype=np.uint8),
        )
        for split, samples in (("train", 7), ("test", 3))
    }


def write_dataset(folder, arrays) -> None:
    for split, files in FILES.items():
        for name, array in zip(files, arrays[split], strict=True):
            write(folder / name, idx_bytes(array))


def message_of(function, *arguments) -> str:
    with pytest.raises(DataError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 28, 28), (0, 3), (2, 1, 3, 2)])
def test_round_trip(tmp_path, shape):
    array = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    found = read_idx(write(tmp_path / "a.gz", idx_bytes(array)))
    assert found.dtype == np.uint8 and found.shape == shape
    assert np.array_equal(found, array)


def test_a_dataset_of_four_files(tmp_path):
    arrays = small_dataset()
    write_dataset(tmp_path, arrays)
    found = read(tmp_path, ENTRY)
    assert list(found) == ["train", "test"]
    for split, (images, labels) in found.items():
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.array_equal(images, arrays[split][0][:, np.newaxis])
        assert np.array_equal(labels, arrays[split][1])


def test_the_format_is_found_by_its_name(tmp_path):
    write_dataset(tmp_path, small_dataset())
    assert {"idx", "digits"} <= set(known_formats())
    assert read_dataset(tmp_path, ENTRY)["test"][0].shape == (3, 1, 4, 5)


def test_cut_off(tmp_path):
    path = write(tmp_path / "a.gz", idx_bytes(np.arange(200, dtype=np.uint8)))
    path.write_bytes(path.read_bytes()[:-20])
    assert message_of(read_idx, path) == (
        f"{path} is not a whole gzip file (Compressed file ended before the end-of-stream marker was reached); "
        "delete it and download it again"
    )


def test_not_gzip(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(b"<html>not here</html>")
    assert message_of(read_idx, path) == (
        f"{path} is not a whole gzip file (Not a gzipped file (b'<h')); delete it and download it again"
    )


@pytest.mark.parametrize("place", [12, -6], ids=["in the data", "in the checksum"])
def test_damaged(tmp_path, place):
    path = write(tmp_path / "a.gz", idx_bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)))
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    message = message_of(read_idx, path)
    assert message.startswith(f"{path} is not a whole gzip file (")
    assert message.endswith("); delete it and download it again")


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (b"", "nothing"),
        (b"\0\0", "0000"),
        (b"\0\0\x08", "000008"),
        (b"\0\0\x0d\x01\0\0\0\0", "00000d01"),  # floats
        (b"\0\x01\x08\x01\0\0\0\x01\x05", "00010801"),
        (b"PNG and more", "504e4720"),
    ],
)
def test_wrong_magic(tmp_path, content, begins):
    path = write(tmp_path / "a.gz", content)
    assert message_of(read_idx, path) == f"{path} is not an IDX file of unsigned bytes: it begins with {begins}"


@pytest.mark.parametrize("header", [b"\0\0\x08\x03", b"\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0"])
def test_short_header(tmp_path, header):
    path = write(tmp_path / "a.gz", header)
    assert message_of(read_idx, path) == f"{path} ends inside its header of 16 bytes"


@pytest.mark.parametrize("held", [0, 5, 7])
def test_wrong_length(tmp_path, held):
    header = b"\0\0\x08\x02" + struct.pack(">2I", 2, 3)
    path = write(tmp_path / "a.gz", header + b"x" * held)
    assert message_of(read_idx, path) == f"{path} announces 6 values of shape (2, 3) and holds {held}"


def test_an_announced_size_beyond_memory_is_only_a_wrong_length(tmp_path):
    path = write(tmp_path / "a.gz", b"\0\0\x08\x03" + b"\xff" * 12 + b"x")
    announced = (2**32 - 1) ** 3
    shape = (2**32 - 1,) * 3
    assert message_of(read_idx, path) == f"{path} announces {announced} values of shape {shape} and holds 1"


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_and_labels_that_do_not_go_together(tmp_path, split):
    arrays = small_dataset()
    images, labels = arrays[split]
    arrays[split] = (images, labels[:-1])
    write_dataset(tmp_path, arrays)
    image_file, label_file = FILES[split]
    assert message_of(read, tmp_path, ENTRY) == (
        f"{tmp_path}: {image_file} holds {images.shape} and {label_file} {(len(images) - 1,)}; "
        "they must hold as many images (samples, height, width) as labels (samples)"
    )


def test_images_and_labels_exchanged(tmp_path):
    arrays = small_dataset()
    arrays["train"] = arrays["train"][::-1]
    write_dataset(tmp_path, arrays)
    assert message_of(read, tmp_path, ENTRY) == (
        f"{tmp_path}: train-images-idx3-ubyte.gz holds (7,) and train-labels-idx1-ubyte.gz (7, 4, 5); "
        "they must hold as many images (samples, height, width) as labels (samples)"
    )
