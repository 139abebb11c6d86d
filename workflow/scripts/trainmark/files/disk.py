"""Free disk, asked for before something large is written, and arrays that reach the disk."""

import os
import shutil
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from trainmark.errors import DataError

RESERVE_BYTES = 64 << 20
"""What is to stay free beside a large file: logs, tables and everybody else's small files."""


class StorageError(DataError):
    """A file cannot be stored on this machine: it would not help to get it from another place."""


def require_free_disk(folder: Path, needed_bytes: int, what: str) -> None:
    """Raise StorageError where `folder` has less free disk than `what` still needs."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes + RESERVE_BYTES:
        raise StorageError(
            f"{what} needs {format_bytes(needed_bytes)} more and a reserve of {format_bytes(RESERVE_BYTES)}, and the "
            f"disk of {folder} has {format_bytes(free_bytes)} free; make room there, or work in a folder on a larger "
            "disk"
        )


def new_array(file: Path, dtype: DTypeLike, shape: tuple[int, ...], what: str) -> int:
    """Make an .npy file with all of its disk taken, to be filled in; return the byte at which its values begin.

    It is filled by writing, not by memory-mapping: mapped pages count as the job's memory, and one that finds no disk
    ends the process. Raises StorageError where the disk is too small, and ValueError for objects, which would have to
    be pickled.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"{what} would hold objects of Python")
    size_bytes = prod(shape) * dtype.itemsize
    require_free_disk(file.parent, size_bytes, what)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with open(file, "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        begin = stream.tell()
        stream.flush()
        try:
            os.posix_fallocate(stream.fileno(), 0, begin + size_bytes)
        except OSError as error:
            raise StorageError(
                f"{what} does not fit on the disk of {file.parent} ({error.strerror}); make room"
            ) from error
    return begin


def write_arrays(file: Path, arrays: Mapping[str, ArrayLike]) -> None:
    """Write arrays by name as an .npz file. Raises OSError, and ValueError for an array of Python objects."""
    with open(file, "wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def format_bytes(size_bytes: int) -> str:
    """A size for people: 1.5 GiB."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
