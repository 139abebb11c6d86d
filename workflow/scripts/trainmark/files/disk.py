"""Checks for free disk space before a large file is written, and functions that write numpy arrays to files."""

import errno
import os
import shutil
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from trainmark.errors import DataError, why

RESERVE_BYTES = 64 << 20
"""Disk space that a large file must leave free, for logs, tables and other small files."""


BLOCK_BYTES = 1 << 24
"""Bytes of zeros that are written at a time."""


class StorageError(DataError):
    """A file cannot be stored on this machine. Another download source would not help."""


def require_free_disk(folder: Path, needed_bytes: int, what: str) -> None:
    """Raise StorageError if the disk of `folder` has less free space than `needed_bytes` plus RESERVE_BYTES.

    what: the name of the file, for the message. A file system that does not tell its size (FUSE) passes.
    """
    usage = shutil.disk_usage(folder)
    if usage.free < needed_bytes + RESERVE_BYTES and (usage.free or usage.total):
        raise StorageError(
            f"{what} needs {format_bytes(needed_bytes)} more and a reserve of {format_bytes(RESERVE_BYTES)}, and the "
            f"disk of {folder} has {format_bytes(usage.free)} free; make room there, or work in a folder on a larger "
            "disk"
        )


def new_array(file: Path, dtype: DTypeLike, shape: tuple[int, ...], what: str) -> int:
    """Create an .npy file with its full size allocated on disk; return the byte offset at which its values begin.

    The caller writes the values into the file. It does not memory-map the file, because mapped pages count as the
    job's memory, and a page that cannot be stored on a full disk kills the process.

    Raises StorageError if the disk is too small, and ValueError for a dtype of Python objects, which would need pickle.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"{what} would hold Python objects, which an .npy file cannot store without pickle")
    size_bytes = prod(shape) * dtype.itemsize
    require_free_disk(file.parent, size_bytes, what)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        with open(file, "w+b") as stream:  # "+": where the file system can't allocate, glibc reads what it writes over
            np.lib.format.write_array_header_1_0(stream, header)
            begin = stream.tell()
            _allocate(stream, begin + size_bytes)
    except OSError as error:
        raise StorageError(f"{what} can't be written to {file.parent} {why(error)}") from error
    return begin


def _allocate(stream: BinaryIO, size_bytes: int) -> None:
    """Extend a file to a size, with room for all of it on the disk: by writing where nothing else allocates (macOS)."""
    stream.flush()
    try:
        return os.posix_fallocate(stream.fileno(), 0, size_bytes)
    except AttributeError:
        pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
    while left_bytes := size_bytes - stream.tell():
        stream.write(bytes(min(left_bytes, BLOCK_BYTES)))


def write_arrays(file: Path, arrays: Mapping[str, ArrayLike]) -> None:
    """Write named arrays to an .npz file. Raises OSError, and ValueError for an array of Python objects."""
    with open(file, "wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def format_bytes(size_bytes: int) -> str:
    """Format a number of bytes for people: "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
