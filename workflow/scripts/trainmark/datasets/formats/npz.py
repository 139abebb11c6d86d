"""The user's own arrays, in one .npz file, as numpy.savez and numpy.savez_compressed write it.

The names of the arrays are those of the format npy. The file is unpacked into .npy files, which are memory-mapped and
never unpickled.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trainmark.datasets.archives import unpack
from trainmark.datasets.formats._arrays import file_names, named_in_messages, read_arrays, source_folder
from trainmark.datasets.samples import Arrays, Folders
from trainmark.errors import DataError

FORMAT = {
    "kind": "images",
    "required": ["files|folder", "image_shape", "classes"],
    "optional": ["class_names"],
    "own_files": "*.npz",
}


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The arrays of the one .npz file of the entry. Raises DataError if they are not right."""
    with unpacked_arrays(folders, entry) as arrays:
        return read_arrays(arrays, [path.name for path in arrays.iterdir()], entry)


@contextmanager
def unpacked_arrays(folders: Folders, entry: Mapping) -> Iterator[Path]:
    """Unpack the .npz file of an entry; yield the folder of its .npy files. Messages of the body name the .npz file.

    Arrays of an earlier .npz file are deleted first: `unpack` would keep files of the same size, whatever they hold.
    Raises DataError.
    """
    folder = source_folder(folders, entry)
    files = [name for name in file_names(folder, entry) if name.endswith(".npz")]
    if len(files) != 1:
        raise DataError(f"{folder} holds {len(files)} .npz files; the format npz needs exactly one for each dataset")
    arrays = folders.unpacked / "arrays"
    shutil.rmtree(arrays, ignore_errors=True)
    unpack(folder / files[0], arrays)
    with named_in_messages({f"{arrays}/": f"{folder / files[0]}: ", f"{arrays}": f"{folder / files[0]}"}):
        yield arrays
