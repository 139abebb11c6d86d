"""Free disk space is checked before a large file is written, and sizes are written for people."""

import errno
import os
import shutil
from collections import namedtuple
from unittest.mock import Mock

import numpy as np
import pytest

from trainmark.errors import DataError
from trainmark.files import disk
from trainmark.files.disk import RESERVE_BYTES, format_bytes, new_array, require_free_disk

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def free(monkeypatch):
    def set_free(free_bytes):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1 << 50, 0, free_bytes))

    return set_free


def test_one_byte_too_many_is_an_error_with_sizes_and_folder(tmp_path, free):
    free(3 << 30)
    needed = (3 << 30) - RESERVE_BYTES + 1
    require_free_disk(tmp_path, needed - 1, "the store")
    with pytest.raises(DataError) as caught:
        require_free_disk(tmp_path, needed, "the store x.npy")
    assert str(caught.value) == (
        f"the store x.npy needs 2.9 GiB more and a reserve of 64.0 MiB, and the disk of {tmp_path} has 3.0 GiB free; "
        "make room there, or work in a folder on a larger disk"
    )


def test_a_mount_that_does_not_tell_its_size_is_not_full(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 0))
    require_free_disk(tmp_path, 1 << 40, "the store")


@pytest.mark.parametrize(
    "number", [None, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EBADF, errno.EPERM, "macOS"]
)
@pytest.mark.parametrize(("dtype", "shape"), [(np.uint8, (300, 1000)), (np.int32, (7, 40, 11))])
def test_a_new_array_is_allocated_before_it_is_filled(tmp_path, monkeypatch, number, dtype, shape):
    """Also on a file system without fallocate: what glibc does there itself (NFS, ext3), musl and FUSE do not."""
    if number == "macOS":
        monkeypatch.delattr(os, "posix_fallocate")
    elif number:
        monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(number, os.strerror(number))))
    monkeypatch.setattr(disk, "BLOCK_BYTES", 1000)
    file = tmp_path / "a.npy"
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    begin = new_array(file, dtype, shape, "the store")
    assert file.stat().st_size == begin + values.nbytes
    assert file.stat().st_blocks * 512 >= values.nbytes, "no hole is left to be filled later"
    with open(file, "r+b") as out:
        out.seek(begin)
        out.write(values)
    stored = np.load(file, allow_pickle=False)
    assert stored.dtype == dtype and np.array_equal(stored, values)


def test_an_array_of_objects_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the store would hold Python objects"):
        new_array(tmp_path / "b.npy", object, (1,), "the store")


@pytest.mark.parametrize(("size_bytes", "shown"), [(1023, "1023 bytes"), (1024, "1.0 KiB"), (1 << 50, "1024.0 TiB")])
def test_sizes_for_people(size_bytes, shown):
    assert format_bytes(size_bytes) == shown
