"""Checksums of files, with a progress bar where reading takes long."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from tqdm import tqdm

CHUNK_BYTES = 1 << 18


CHECKSUM_NAMES = {"sha256": "SHA-256", "md5": "MD5"}


class Checksum(NamedTuple):
    """What a file must hash to. kind: a key of CHECKSUM_NAMES; digest: hexadecimal, lower case."""

    kind: str
    digest: str

    @classmethod
    def from_catalogue(cls, file: Mapping) -> Self:
        """The catalogue's checksum of a file: MD5 only where its publisher gives no SHA-256."""
        kind = "sha256" if "sha256" in file else "md5"
        return cls(kind, file[kind])

    def __str__(self) -> str:
        return f"{CHECKSUM_NAMES[self.kind]} {self.digest}"


def checksum_of(path: Path, kind: str) -> Checksum:
    """The checksum of a file, of the given kind."""
    with open(path, "rb") as stream:
        return Checksum(kind, digest_of(stream, kind, path.name).hexdigest())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def progress_bar(title: str, total_bytes: int | None, **options: Any) -> tqdm:
    """A bar with bytes, speed and time left; silent where standard error is no terminal."""
    return tqdm(desc=title, total=total_bytes, unit="B", unit_scale=True, disable=None, **options)


def digest_of(stream: BinaryIO, kind: str, name: str) -> "hashlib._Hash":
    """The running hash of all that a stream still gives."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with progress_bar(f"checking {name}", os.fstat(stream.fileno()).st_size, leave=False, delay=1) as bar:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest
