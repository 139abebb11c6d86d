"""Files that are there as a whole or not at all, whatever stops their writing."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def part_of(path: Path) -> Path:
    """Where a file lies until it is whole; a process that is killed leaves it there."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` for the body to write, which takes its place at the end; it goes when anything is raised.

    Its folder is made.
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
    """Write a text file in UTF-8 as a whole."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def give_name(part: Path, path: Path) -> None:
    """Rename a file once its content is on the disk: a rename can reach it before the data do."""
    sync(part)
    os.replace(part, path)


def sync(path: Path) -> None:
    """Have a file's content, or a folder's list of files, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
