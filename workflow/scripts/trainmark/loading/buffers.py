"""Memory for batches, which is used again as soon as nobody refers to its batch any more."""

import sys

import numpy as np

from trainmark.loading.memory_file import MemoryFile

ONLY_HERE = 2
"""What sys.getrefcount returns for an array that only a list refers to: the list and the argument of the call."""


class Buffers:
    """Buffers of one size. New memory for every batch would cost half as much time as loading it: the system clears it.

    memory_file: where the buffers lie; None for memory of this process alone.
    """

    def __init__(self, memory_file: MemoryFile | None) -> None:
        self._memory_file = memory_file
        self._size = 0
        self._arrays: list[np.ndarray] = []
        self._offsets: list[int] = []

    def take(self, size: int) -> tuple[np.ndarray, int]:
        """Return a buffer of at least `size` bytes, uint8, and its offset in the memory file.

        It is taken as long as anything refers to it; views, such as batches and their parts, do so, too.
        """
        if size > self._size:
            self._arrays, self._offsets, self._size = [], [], size
        for number in range(len(self._arrays)):
            if sys.getrefcount(self._arrays[number]) == ONLY_HERE:
                return self._arrays[number], self._offsets[number]
        self._arrays.append(self._new())
        return self._arrays[-1], self._offsets[-1]

    def _new(self) -> np.ndarray:
        if self._memory_file is None:
            self._offsets.append(0)
            return np.empty(self._size, np.uint8)
        self._offsets.append(self._memory_file.grow(self._size))
        return np.frombuffer(self._memory_file.map(self._offsets[-1], self._size), np.uint8)
