"""The IDX reader: what is whole comes back, and what is damaged says how, in one DataError."""

import gzip
import resource
import struct

import numpy as np
import pytest
from messages import message_of

from trainmark.datasets.catalogue import known_formats
from trainmark.datasets.formats.idx import FILES, read, read_idx
from trainmark.datasets.prepare import read_dataset
from trainmark.datasets.samples import Folders

ENTRY = {"format": "idx", "image_shape": [1, 4, 5], "classes": 10, "samples": {"train": 7, "test": 3}}
PLENTY_BYTES = 1 << 20


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


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 28, 28), (0, 3), (2, 1, 3, 2)])
def test_round_trip(tmp_path, shape):
    array = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    found = read_idx(write(tmp_path / "a.gz", idx_bytes(array)), PLENTY_BYTES)
    assert found.dtype == np.uint8 and found.shape == shape
    assert np.array_equal(found, array)


def test_a_dataset_of_four_files(tmp_path):
    arrays = small_dataset()
    write_dataset(tmp_path, arrays)
    found = read(folders(tmp_path), ENTRY)
    assert list(found.splits) == ["train", "test"]
    assert (found.kind, found.class_names) == ("images", list("0123456789"))
    for split, (images, labels) in found.splits.items():
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.array_equal(images, arrays[split][0][:, np.newaxis])
        assert np.array_equal(labels, arrays[split][1])


def test_a_folder_of_ones_own(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    write_dataset(own, small_dataset())
    found = read(folders(tmp_path), {**ENTRY, "folder": str(own)})
    assert np.array_equal(found.splits["test"][1], small_dataset()["test"][1])


def test_the_format_is_found_by_its_name(tmp_path):
    write_dataset(tmp_path, small_dataset())
    assert {"idx", "digits"} <= set(known_formats())
    assert read_dataset(folders(tmp_path), ENTRY).splits["test"][0].shape == (3, 1, 4, 5)


def test_classes_have_the_names_of_the_entry(tmp_path):
    write_dataset(tmp_path, small_dataset())
    names = [f"class {number}" for number in range(10)]
    assert read(folders(tmp_path), {**ENTRY, "class_names": names}).class_names == names


def test_cut_off(tmp_path):
    path = write(tmp_path / "a.gz", idx_bytes(np.arange(200, dtype=np.uint8)))
    path.write_bytes(path.read_bytes()[:-20])
    assert message_of(read_idx, path, PLENTY_BYTES) == (
        f"{path} is not a complete gzip file (Compressed file ended before the end-of-stream marker was reached); "
        "delete it and get it again"
    )


def test_not_gzip(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(b"<html>not here</html>")
    assert message_of(read_idx, path, PLENTY_BYTES) == (
        f"{path} is not a complete gzip file (Not a gzipped file (b'<h')); delete it and get it again"
    )


@pytest.mark.parametrize("place", [12, -6], ids=["in the data", "in the checksum"])
def test_damaged(tmp_path, place):
    path = write(tmp_path / "a.gz", idx_bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)))
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    message = message_of(read_idx, path, PLENTY_BYTES)
    assert message.startswith(f"{path} is not a complete gzip file (")
    assert message.endswith("); delete it and get it again")


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
    assert (
        message_of(read_idx, path, PLENTY_BYTES)
        == f"{path} is not an IDX file of unsigned bytes: it begins with {begins}"
    )


@pytest.mark.parametrize("header", [b"\0\0\x08\x03", b"\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0"])
def test_short_header(tmp_path, header):
    path = write(tmp_path / "a.gz", header)
    assert message_of(read_idx, path, PLENTY_BYTES) == f"{path} ends inside its header of 16 bytes"


@pytest.mark.parametrize("held", [0, 5, 7])
def test_wrong_length(tmp_path, held):
    header = b"\0\0\x08\x02" + struct.pack(">2I", 2, 3)
    path = write(tmp_path / "a.gz", header + b"x" * held)
    assert message_of(read_idx, path, PLENTY_BYTES) == f"{path} announces 6 values of shape (2, 3) and holds {held}"


def test_an_announced_size_beyond_memory_is_only_a_wrong_length(tmp_path):
    path = write(tmp_path / "a.gz", b"\0\0\x08\x03" + b"\xff" * 12 + b"x")
    announced = (2**32 - 1) ** 3
    shape = (2**32 - 1,) * 3
    assert (
        message_of(read_idx, path, PLENTY_BYTES) == f"{path} announces {announced} values of shape {shape} and holds 1"
    )


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_and_labels_that_do_not_go_together(tmp_path, split):
    arrays = small_dataset()
    images, labels = arrays[split]
    arrays[split] = (images, labels[:-1])
    write_dataset(tmp_path, arrays)
    image_file, label_file = FILES[split]
    assert message_of(read, folders(tmp_path), ENTRY) == (
        f"{tmp_path}: {image_file} holds {images.shape} and {label_file} {(len(images) - 1,)}; "
        "they must hold as many images (samples, height, width) as labels (samples)"
    )


def test_images_and_labels_exchanged(tmp_path):
    arrays = small_dataset()
    arrays["train"] = arrays["train"][::-1]
    write_dataset(tmp_path, arrays)
    assert message_of(read, folders(tmp_path), ENTRY) == (
        f"{tmp_path}: train-images-idx3-ubyte.gz holds (7,) and train-labels-idx1-ubyte.gz (7, 4, 5); "
        "they must hold as many images (samples, height, width) as labels (samples)"
    )


def test_a_file_that_is_not_there(tmp_path):
    path = tmp_path / "a.gz"
    assert message_of(read_idx, path, PLENTY_BYTES) == (
        f"{path} is missing; the format idx needs train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
        "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"
    )


@pytest.mark.parametrize("most_bytes", [0, 100, 207])
def test_more_than_is_expected_is_not_unpacked(tmp_path, most_bytes):
    path = write(tmp_path / "a.gz", idx_bytes(np.arange(200, dtype=np.uint8)))
    assert len(read_idx(path, 208)) == 200
    assert message_of(read_idx, path, most_bytes) == (
        f"{path} unpacks to more than the {most_bytes} bytes that its catalogue entry leaves room for"
    )


def test_a_bomb_costs_no_memory(tmp_path):
    """Half a gigabyte of zeros, of which an entry of 140 pixels reads what it has room for."""
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as stream:
        for _ in range(512):
            stream.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = message_of(read, folders(tmp_path), ENTRY)
    assert message.endswith("unpacks to more than the 1164 bytes that its catalogue entry leaves room for")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_labels_from_one(tmp_path):
    """As EMNIST's letters have them."""
    write_dataset(tmp_path, {split: (images, labels + 1) for split, (images, labels) in small_dataset().items()})
    message = message_of(read, folders(tmp_path), {**ENTRY, "classes": 11})
    assert message.startswith(
        f"{tmp_path}/train-labels-idx1-ubyte.gz: the labels of both splits run from 1 to 10 and lack 0; "
    )
