"""A file that is not whole yet: `<name>.part` beside the target, and what it hashes to so far."""

import errno
import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from trainmark.files.checksums import Checksum, digest_of
from trainmark.files.disk import StorageError, format_bytes, require_free_disk
from trainmark.files.whole import give_name, part_of


class PartialFile:
    """The bytes of a file that is not whole yet, and their running checksum.

    A context: on entry it is locked, and holds what an earlier process left; on exit nothing is left of it where it is
    empty. Every method raises StorageError where the file system refuses.
    """

    def __init__(self, target: Path, kind: str) -> None:
        self.target = target
        self.path = part_of(target)
        self.size_bytes = 0
        self.continued = False  # whether it holds bytes of more than one attempt, and so perhaps of two files
        self._kind = kind

    def __enter__(self) -> Self:
        with self._storing():
            self._stream = open(self.path, "a+b", buffering=0)
        try:
            self._lock()
            with self._storing():
                self._stream.seek(0)
                self._digest = digest_of(self._stream, self._kind, self.path.name)
                self.size_bytes = self._stream.tell()
        except BaseException:
            self._stream.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.size_bytes:
            self.path.unlink(missing_ok=True)
        self._stream.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"{self.path} is being written by another process; wait until that one ends") from error
        except OSError:
            return  # a file system without locks, as Lustre may be mounted

    def begin(self, size_bytes: int | None) -> int:
        """Start an attempt; return the byte from which it goes on. What has its full length by now is wrong."""
        if size_bytes is not None and self.size_bytes >= size_bytes:
            self.clear()
        self.continued = self.size_bytes > 0
        return self.size_bytes

    def append(self, chunk: bytes) -> None:
        """Write bytes to the end."""
        rest = memoryview(chunk)
        while rest:
            with self._storing():
                written_bytes = self._stream.write(rest)
            self._digest.update(rest[:written_bytes])
            self.size_bytes += written_bytes
            rest = rest[written_bytes:]

    def clear(self) -> None:
        """Start from zero."""
        with self._storing():
            self._stream.truncate(0)
        self._digest = hashlib.new(self._kind, usedforsecurity=False)
        self.size_bytes, self.continued = 0, False

    def checksum(self) -> Checksum:
        """The checksum of the bytes so far."""
        return Checksum(self._kind, self._digest.hexdigest())

    def require_space(self, total_bytes: int) -> None:
        """Raise StorageError where a file of this size would not fit on the disk."""
        require_free_disk(self.path.parent, total_bytes - self.size_bytes, self.target.name)

    def keep(self) -> None:
        """Give the file its real name, when all of it is on the disk."""
        with self._storing():
            give_name(self.path, self.target)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Say of an error of the file system what to do; nothing of the network may run inside."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageError(
                    f"the disk of {self.path.parent} is full ({error.strerror}); the {format_bytes(self.size_bytes)} "
                    f"of {self.target.name} that came are kept in {self.path}; make room and run it again, and it goes "
                    "on from there"
                ) from error
            raise StorageError(f"{self.path} cannot be written ({error.strerror}); see to that folder") from error
