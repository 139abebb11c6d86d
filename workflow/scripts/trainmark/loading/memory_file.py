"""Memory that processes share. It has no name, so that nothing of it is left when they end, however they end."""

import mmap
import os
from contextlib import suppress
from multiprocessing.reduction import DupFd
from tempfile import TemporaryFile
from typing import Any


class MemoryFile:
    """A file in memory. A process that is started by multiprocessing may get it as an argument, and sees its content.

    It does not lie in /dev/shm, which is small in many containers and may be full. Its pages are taken when they are
    first written.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _new() if descriptor is None else descriptor
        self._size = 0

    def grow(self, size: int) -> int:
        """Add at least `size` bytes and return the offset at which they begin. For the process that made the file."""
        offset = self._size
        self._size += -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        os.ftruncate(self.descriptor, self._size)
        return offset

    def map(self, offset: int, size: int) -> mmap.mmap:
        """Map a part that one call of `grow` added."""
        return mmap.mmap(self.descriptor, size, offset=offset)

    def close(self) -> None:
        """Close the file. What is mapped stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.descriptor),)


def _new() -> int:
    """Return the descriptor of a file in memory; on macOS and where that is forbidden, of one without a name."""
    with suppress(AttributeError, OSError):
        return os.memfd_create("trainmark-loader")
    with TemporaryFile() as file:
        return os.dup(file.fileno())


def _received(duplicate: Any) -> MemoryFile:
    return MemoryFile(duplicate.detach())
