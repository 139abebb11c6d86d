"""Checksums of files."""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path


def expected_checksum(file: Mapping) -> tuple[str, str]:
    """(kind, digest) of a file's catalogue entry: its SHA-256, or its MD5 if the publisher gives no SHA-256."""
    kind = "sha256" if "sha256" in file else "md5"
    return kind, file[kind]


def has_checksum(path: Path, file: Mapping) -> bool:
    """Whether a file is there and is the one of this catalogue entry."""
    kind, digest = expected_checksum(file)
    return path.is_file() and _digest_of(path, kind) == digest


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    return _digest_of(path, "sha256")


def _digest_of(path: Path, kind: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.new, kind, usedforsecurity=False)).hexdigest()
