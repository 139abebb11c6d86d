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

    Its folder is made. What was written is on the disk before the name is given: a rename can reach it before the data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        yield part
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
