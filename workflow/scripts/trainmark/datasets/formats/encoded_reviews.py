"""Keras's imdb.npz: the IMDB reviews as lists of word ranks, without start token and offset.

Format: keras.datasets.imdb, a zip of .npy files (numpy.lib.format). The files of the reviews contain a pickle; nothing
that it names is imported or called.
"""

import io
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from trainmark.datasets.formats.reviews import CLASS_NAMES, only_file
from trainmark.datasets.samples import Arrays, Folders
from trainmark.datasets.tokens import encode_ranks
from trainmark.errors import DataError

FORMAT = {
    "kind": "tokens",
    "required": ["files", "classes", "samples", "sequence_length", "vocabulary_size"],
    "optional": [],
}

MEMBERS = {"train": ("x_train.npy", "y_train.npy"), "test": ("x_test.npy", "y_test.npy")}
"""By split, the .npy files of reviews and labels."""

MAX_BYTES = 1 << 30
"""Largest total size of the four .npy files; those of Keras have about 40 MB."""

MAX_RANK = 2**31 - 1

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compressions that numpy writes. For these two, Python's reader stops at the size that the zip announces."""

ZIP_ERRORS = (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError, NotImplementedError)
"""Exceptions for a damaged zip."""

HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

ARRAY_PARTS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}
"""What a pickled array of objects refers to, before and since numpy 2; Keras's own reader allows the same."""


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The reviews of each split as token ids, in the order of the file. Raises DataError if the file is not right."""
    path = only_file(folders, entry, r"\.npz$", "file like Keras's imdb.npz (.npz)")
    contents = _contents(path)
    splits = {}
    for split, (review_file, label_file) in MEMBERS.items():
        reviews = _reviews(contents[review_file], f"{path}: {review_file}")
        labels = _labels(contents[label_file], f"{path}: {label_file}")
        if not reviews or len(reviews) != len(labels):
            raise DataError(
                f"{path}: {review_file} holds {len(reviews)} reviews and {label_file} {len(labels)} labels; "
                "each review needs one label, and there must be at least one review"
            )
        rows = [encode_ranks(ranks, entry["vocabulary_size"], entry["sequence_length"]) for ranks in reviews]
        splits[split] = (np.stack(rows), labels)
    return Arrays(splits, CLASS_NAMES, kind="tokens")


def _contents(path: Path) -> dict[str, bytes]:
    """The bytes of each of the four .npy files, by name. Raises DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {info.filename: archive.read(info) for info in _members(archive)}
    except ZIP_ERRORS as error:
        raise DataError(f"{path} is not a complete zip file ({error}); delete it and download it again") from error


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Directory entries of the four files in the zip. Raises zipfile.BadZipFile if one of them must not be read."""
    names = [name for pair in MEMBERS.values() for name in pair]
    missing = [name for name in names if name not in archive.namelist()]
    if missing:
        raise zipfile.BadZipFile(f"{', '.join(missing)} not in it")
    members = [archive.getinfo(name) for name in names]
    for member in members:
        if member.flag_bits & 1 or member.compress_type not in COMPRESSIONS:
            raise zipfile.BadZipFile(f"{member.filename} is encrypted or packed in a way that numpy does not use")
    if sum(member.file_size for member in members) > MAX_BYTES:
        raise zipfile.BadZipFile(f"its .npy files announce more than {MAX_BYTES} bytes")
    return members


def _header(content: bytes, where: str) -> tuple[tuple[int, ...], np.dtype, io.BytesIO]:
    """(shape, dtype, stream at the data) of a .npy file. Raises DataError."""
    stream = io.BytesIO(content)
    try:
        shape, _, dtype = HEADER_READERS[npy.read_magic(stream)](stream)
    except Exception as error:  # numpy evaluates the header as a Python literal, which may raise many types
        raise DataError(f"{where} is not a .npy file of version 1 or 2; download it again") from error
    return shape, dtype, stream


def _labels(content: bytes, where: str) -> np.ndarray:
    """Labels 0 and 1, int64 (samples,). Raises DataError."""
    shape, dtype, stream = _header(content, where)
    data = stream.read()
    if len(shape) != 1 or dtype.kind not in "iu" or len(data) != shape[0] * dtype.itemsize:
        raise DataError(f"{where} holds {len(data)} bytes of {dtype} {shape}; it must hold one integer for each review")
    labels = np.frombuffer(data, dtype).astype(np.int64)
    if not np.isin(labels, (0, 1)).all():
        raise DataError(f"{where} holds labels from {labels.min()} to {labels.max()}; they must be 0 or 1")
    return labels


def _reviews(content: bytes, where: str) -> list[list[int]]:
    """The word ranks of each review, 1 for the commonest word. Raises DataError."""
    shape, dtype, stream = _header(content, where)
    if len(shape) != 1 or dtype.kind != "O":
        raise DataError(f"{where} holds {dtype} {shape}; it must hold one list for each review")
    reviews = _ArrayReader(stream, where).elements()
    if len(reviews) != shape[0]:
        raise DataError(f"{where} announces {shape[0]} reviews and holds {len(reviews)}; download it again")
    for position, ranks in enumerate(reviews):
        if type(ranks) is not list or not all(type(rank) is int and 1 <= rank <= MAX_RANK for rank in ranks):
            raise DataError(f"{where}: review {position} (from 0) is not a list of word ranks from 1 to {MAX_RANK}")
    return reviews


class _Described:
    """Stand-in for everything that a pickled array refers to; it stores the state that it is given."""

    def __init__(self, *_: object):
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _ArrayReader(pickle.Unpickler):
    """Reads the elements of a pickled array of objects; nothing that the pickle names is run."""

    def __init__(self, stream: io.BytesIO, where: str):
        super().__init__(stream)
        self.where = where

    def find_class(self, module: str, name: str) -> type:
        """Return a stand-in for what an array needs. Raises DataError for everything else."""
        if (module, name) not in ARRAY_PARTS:
            requested = repr(f"{module}.{name}"[:80])
            raise DataError(f"{self.where} asks for {requested}, which no array needs; it was not run; delete the file")
        return _Described

    def elements(self) -> list:
        """Elements of the array. Raises DataError if the pickle is damaged or holds something else."""
        try:
            # numpy's array state: version, shape, dtype, whether in Fortran's order, elements (ndarray.__setstate__).
            _, _, _, _, elements = self.load().state
        except DataError:
            raise
        except Exception as error:  # a damaged pickle may raise anything
            raise DataError(f"{self.where} is not a pickled array; delete the file and download it again") from error
        if type(elements) is not list:
            raise DataError(f"{self.where} is a pickled array of numbers; it must hold one list for each review")
        return elements
