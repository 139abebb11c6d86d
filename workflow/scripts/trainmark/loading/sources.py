"""Where the stored images of a split are read from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from trainmark.errors import ConfigError
from trainmark.files.disk import format_bytes
from trainmark.loading.memory_file import MemoryFile

BLOCK_BYTES = 1 << 26
"""Bytes of a file that are read at a time."""


class Source(ABC):
    """The stored images of one split. Worker processes get a copy when they start.

    samples: number of images.
    shape: (channels, height, width) of each.
    channels_last: whether the channels of a pixel lie next to each other in memory.
    """

    samples: int
    shape: tuple[int, int, int]
    channels_last: bool

    @abstractmethod
    def keys(self, samples: np.ndarray) -> Sequence[Any]:
        """Return what `read` needs in order to read these samples (by index)."""

    @abstractmethod
    def read(self, key: Any) -> np.ndarray:
        """Return an image, uint8 (channels, height, width). Raises DataError if it is damaged or missing."""

    def mirror(self, window: np.ndarray) -> np.ndarray:
        """Return a window of an image, (channels, height, width), mirrored left to right."""
        return window[:, :, ::-1]


class ArraySource(Source):
    """An array of images, memory-mapped from a file or in memory that worker processes share."""

    def __init__(
        self, *, file: Path | MemoryFile, offset: int, stored_shape: tuple[int, ...], channels_last: bool
    ) -> None:
        self._file, self._offset, self._stored_shape, self.channels_last = file, offset, stored_shape, channels_last
        self.samples = stored_shape[0]
        height, width, channels = stored_shape[1:] if channels_last else (*stored_shape[2:], stored_shape[1])
        self.shape = (channels, height, width)
        self._array = self._open()

    def _open(self) -> np.ndarray:
        if isinstance(self._file, MemoryFile):
            memory = self._file.map(self._offset, int(np.prod(self._stored_shape)))
            array = np.frombuffer(memory, np.uint8).reshape(self._stored_shape)
        else:
            array = np.memmap(self._file, np.uint8, "r", self._offset, self._stored_shape).view(np.ndarray)
        return np.moveaxis(array, -1, 1) if self.channels_last else array

    def __getstate__(self) -> dict:
        return {key: value for key, value in vars(self).items() if key != "_array"}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._array = self._open()

    def keys(self, samples: np.ndarray) -> Sequence[int]:
        """See `Source.keys`: the indices themselves."""
        return [int(sample) for sample in samples]

    def read(self, key: int) -> np.ndarray:
        """See `Source.read`."""
        return np.asarray(self._array[key])


def mapped(stored: np.memmap, *, channels_last: bool) -> dict[str, Any]:
    """Return the arguments of ArraySource for a memory-mapped array."""
    assert stored.filename is not None
    return {
        "file": Path(stored.filename),
        "offset": stored.offset,
        "stored_shape": stored.shape,
        "channels_last": channels_last,
    }


def in_memory(stored: np.memmap, *, channels_last: bool) -> dict[str, Any]:
    """Return the arguments of ArraySource for a copy of a memory-mapped array in memory, which is made here.

    The file is read rather than copied from its mapping, whose pages would count as memory, too. Raises ConfigError if
    there is too little memory.
    """
    free_bytes = psutil.virtual_memory().available
    if stored.nbytes > free_bytes:
        raise ConfigError(
            f"loader.store: found memory, but the images of {stored.filename} take {format_bytes(stored.nbytes)}, and "
            f"{format_bytes(free_bytes)} of memory are free; set it to mapped"
        )
    place = mapped(stored, channels_last=channels_last)
    memory = MemoryFile()
    begin = memory.grow(stored.nbytes)
    with open(place["file"], "rb") as file, memory.map(begin, stored.nbytes) as copy:
        file.seek(stored.offset)
        with memoryview(copy) as view:
            for start in range(0, stored.nbytes, BLOCK_BYTES):
                with view[start : start + BLOCK_BYTES] as block:
                    file.readinto(block)
    return place | {"file": memory, "offset": begin}
