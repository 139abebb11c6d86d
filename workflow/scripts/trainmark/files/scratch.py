"""Copies of files on the disk of a node, so that its jobs do not all read the same file over the network."""

import os
import shutil
from pathlib import Path

from filelock import FileLock

from trainmark.errors import DataError, why
from trainmark.files.whole import written_whole

SCRATCH_VARIABLE = "TRAINMARK_SCRATCH"
"""Environment variable that names a folder on the node's own disk."""


def staged(path: Path, sha256: str) -> Path:
    """Return the copy of a file in the folder of SCRATCH_VARIABLE; the file itself if the variable is not set.

    The first process on the node makes the copy, and the others wait for it. Its name is the file's SHA-256, so that
    all datasets with this file share it. The caller checks its content.

    Raises DataError if the copy cannot be made.
    """
    scratch = os.environ.get(SCRATCH_VARIABLE)
    if not scratch:
        return path
    folder = Path(scratch, "trainmark")
    copy = folder / f"{sha256}{path.suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{sha256}.lock", fallback_to_soft=False):
            if not copy.exists():
                with written_whole(copy) as part:
                    shutil.copyfile(path, part)
    except OSError as error:
        said = why(error, "name another folder")
        raise DataError(f"{path} can't be copied to {folder} {said}, or take `scratch` out of the site file") from error
    return copy
