"""Atomic file writes: an interrupted write leaves the old file, or none, but never half a file."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def part_of(path: Path) -> Path:
    """The temporary path of a file until it is complete. A killed process leaves this file behind."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path` for the body to write.

    On success the file is flushed to disk and then renamed to `path`; on an exception it is deleted. Missing parent
    folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        yield part
        give_name(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def give_name(part: Path, path: Path) -> None:
    """Flush a file to disk, then rename it. The flush comes first: a rename can become durable before the data."""
    sync(part)
    os.replace(part, path)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of files, to disk (fsync). Not every file system can sync a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(*([OSError] if path.is_dir() else [])):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
