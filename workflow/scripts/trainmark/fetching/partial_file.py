"""A file that is not whole yet: `<name>.part` beside the target, and what it hashes to so far."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from tqdm import tqdm

from trainmark.disk import StorageError, require_free_disk, shown_bytes
from trainmark.whole_files import part_of

CHUNK_BYTES = 1 << 18

CHECKSUM_NAMES = {"sha256": "SHA-256", "md5": "MD5"}


class Checksum(NamedTuple):
    """What a file must hash to. kind: a key of CHECKSUM_NAMES; digest: hexadecimal, lower case."""

    kind: str
    digest: str

    @classmethod
    def said_of(cls, file: Mapping) -> Self:
        """The catalogue's checksum of a file: MD5 only where its publisher gives no SHA-256."""
        kind = "sha256" if "sha256" in file else "md5"
        return cls(kind, file[kind])

    def __str__(self) -> str:
        return f"{CHECKSUM_NAMES[self.kind]} {self.digest}"


def checksum_of(path: Path, kind: str) -> Checksum:
    """The checksum of a file, of the given kind."""
    with open(path, "rb") as stream:
        return Checksum(kind, _digest_of(stream, kind, path.name).hexdigest())


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
                self._digest = _digest_of(self._stream, self._kind, self.path.name)
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
            os.fsync(self._stream.fileno())
            os.replace(self.path, self.target)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Say of an error of the file system what to do; nothing of the network may run inside."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageError(
                    f"the disk of {self.path.parent} is full ({error.strerror}); the {shown_bytes(self.size_bytes)} of "
                    f"{self.target.name} that came are kept in {self.path}; make room and run it again, and it goes "
                    "on from there"
                ) from error
            raise StorageError(f"{self.path} cannot be written ({error.strerror}); see to that folder") from error


def progress_bar(title: str, total_bytes: int | None, **options: object) -> tqdm:
    """A bar with bytes, speed and time left; silent where standard error is no terminal."""
    return tqdm(desc=title, total=total_bytes, unit="B", unit_scale=True, disable=None, **options)


def _digest_of(stream: BinaryIO, kind: str, name: str) -> "hashlib._Hash":
    """The running hash of all that a stream still gives."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with progress_bar(f"checking {name}", os.fstat(stream.fileno()).st_size, leave=False, delay=1) as bar:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest
