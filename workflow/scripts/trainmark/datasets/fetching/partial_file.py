"""An incomplete file, `<name>.part` next to the target, and the checksum of its bytes so far."""

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
    """The bytes of an incomplete file, and their running checksum.

    Use it as a context manager. On entry the file is locked and the bytes of an earlier process are hashed; on exit an
    empty file is deleted. Every method raises StorageError if the file system refuses an operation.
    """

    def __init__(self, target: Path, kind: str) -> None:
        self.target = target
        self.path = part_of(target)
        self.size_bytes = 0
        self.continued = False  # whether its bytes come from several attempts, and so perhaps from two files
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
            raise StorageError(
                f"{self.path} is being written by another process; wait until that process ends"
            ) from error
        except OSError:
            return  # the file system has no locks, as Lustre may be mounted

    def begin(self, size_bytes: int | None) -> int:
        """Start an attempt; return the byte from which it continues. A file of full length is wrong and is cleared."""
        if size_bytes is not None and self.size_bytes >= size_bytes:
            self.clear()
        self.continued = self.size_bytes > 0
        return self.size_bytes

    def append(self, chunk: bytes) -> None:
        """Append bytes."""
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
        """Raise StorageError if a file of this size would not fit on the disk."""
        require_free_disk(self.path.parent, total_bytes - self.size_bytes, self.target.name)

    def keep(self) -> None:
        """Flush the file to the disk and give it its real name."""
        with self._storing():
            give_name(self.path, self.target)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Turn errors of the file system into StorageErrors that say what to do; the body must not use the network."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageError(
                    f"the disk of {self.path.parent} is full ({error.strerror}); the {format_bytes(self.size_bytes)} "
                    f"of {self.target.name} so far are kept in {self.path}; make room and run again: it "
                    "continues from there"
                ) from error
            raise StorageError(f"{self.path} cannot be written ({error.strerror}); check that folder") from error
