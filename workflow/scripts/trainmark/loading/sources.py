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


class Source(ABC):
    """The stored images of one split. Worker processes get a copy when they start.

    shape: (channels, height, width) of each.
    channels_last: whether the channels of a pixel lie next to each other in memory.
    """

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
    """An array of images, memory-mapped from a file or in memory that worker processes share.

    store: the setting loader.store; "memory" copies the array. Raises ConfigError if there is too little memory.
    """

    channels_last = False

    def __init__(self, stored: np.memmap, store: str) -> None:
        assert stored.filename is not None
        self._file: Path | MemoryFile = Path(stored.filename)
        self._offset, self._stored_shape = stored.offset, stored.shape
        if store == "memory":
            self._file, self._offset = _copied(stored), 0
        self._array = self._open()
        _, channels, height, width = self._array.shape
        self.shape = (channels, height, width)

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


def _copied(stored: np.memmap) -> MemoryFile:
    """Return a copy of the array. Its file is read, and not its mapping, whose pages would count as memory, too."""
    free_bytes = psutil.virtual_memory().available
    if stored.nbytes > free_bytes:
        raise ConfigError(
            f"loader.store: found memory, but the images of {stored.filename} take {format_bytes(stored.nbytes)}, and "
            f"{format_bytes(free_bytes)} of memory are free; set it to mapped"
        )
    memory = MemoryFile()
    memory.grow(stored.nbytes)
    with open(str(stored.filename), "rb") as file:
        file.seek(stored.offset)
        file.readinto(memory.map(0, stored.nbytes))
    return memory
