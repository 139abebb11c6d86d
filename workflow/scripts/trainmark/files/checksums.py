"""Checksums of files, with a progress bar for files that take long to read."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from tqdm import tqdm

CHUNK_BYTES = 1 << 18


CHECKSUM_NAMES = {"sha256": "SHA-256", "md5": "MD5"}


class Checksum(NamedTuple):
    """An expected or computed checksum of a file.

    kind: a key of CHECKSUM_NAMES.
    digest: hexadecimal, lower case.
    """

    kind: str
    digest: str

    @classmethod
    def from_catalogue(cls, file: Mapping) -> Self:
        """The checksum in a file's catalogue entry: its SHA-256, or its MD5 if the publisher gives no SHA-256."""
        kind = "sha256" if "sha256" in file else "md5"
        return cls(kind, file[kind])

    def __str__(self) -> str:
        return f"{CHECKSUM_NAMES[self.kind]} {self.digest}"


def checksum_of(path: Path, kind: str) -> Checksum:
    """Compute the checksum of a file. kind: a key of CHECKSUM_NAMES."""
    with open(path, "rb") as stream:
        return Checksum(kind, digest_of(stream, kind, path.name).hexdigest())


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def progress_bar(title: str, total_bytes: int | None, **options: Any) -> tqdm:
    """A progress bar with bytes, speed and time left. It stays silent unless standard error is a terminal."""
    return tqdm(desc=title, total=total_bytes, unit="B", unit_scale=True, disable=None, **options)


def digest_of(stream: BinaryIO, kind: str, name: str) -> "hashlib._Hash":
    """Hash everything from the stream's current position to its end. name: shown in the progress bar."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with progress_bar(f"checking {name}", os.fstat(stream.fileno()).st_size, leave=False, delay=1) as bar:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest
