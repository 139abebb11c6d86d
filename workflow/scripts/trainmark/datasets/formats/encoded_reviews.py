"""Keras's imdb.npz: the IMDB reviews as lists of word ranks, without start token and offset.

Format: keras.datasets.imdb; a zip of .npy files (numpy.lib.format), those of the reviews with a pickle inside. What
that pickle names is neither imported nor called.
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
"""Of the four .npy files together; Keras's have about 40 MB."""

MAX_RANK = 2**31 - 1

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes; Python's reader bounds what these two unpack to by the size that the zip announces."""

ZIP_ERRORS = (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError, NotImplementedError)
"""What reading a damaged zip raises."""

HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

ARRAY_PARTS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}
"""What a pickled array of objects names, before and since numpy 2; Keras's own reader allows the same."""


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The reviews of each split as token ids, in the file's order. Raises DataError where the file is unfit."""
    path = only_file(folders, entry, r"\.npz$", "file like Keras's imdb.npz (.npz)")
    contents = _contents(path)
    splits = {}
    for split, (review_file, label_file) in MEMBERS.items():
        reviews = _reviews(contents[review_file], f"{path}: {review_file}")
        labels = _labels(contents[label_file], f"{path}: {label_file}")
        if not reviews or len(reviews) != len(labels):
            raise DataError(
                f"{path}: {review_file} holds {len(reviews)} reviews and {label_file} {len(labels)} labels; "
                "they must hold as many, and at least one"
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
        raise DataError(f"{path} is not a whole zip file ({error}); delete it and download it again") from error


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """What the zip's directory says of the four files. Raises zipfile.BadZipFile where one of them must not be read."""
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
    except Exception as error:  # numpy reads the header as a Python literal, and what that raises has no list
        raise DataError(f"{where} is not a .npy file of version 1 or 2; download it again") from error
    return shape, dtype, stream


def _labels(content: bytes, where: str) -> np.ndarray:
    """Labels 0 and 1, int64 (samples,). Raises DataError."""
    shape, dtype, stream = _header(content, where)
    data = stream.read()
    if len(shape) != 1 or dtype.kind not in "iu" or len(data) != shape[0] * dtype.itemsize:
        raise DataError(f"{where} holds {len(data)} bytes of {dtype} {shape}; it must hold one integer a review")
    labels = np.frombuffer(data, dtype).astype(np.int64)
    if not np.isin(labels, (0, 1)).all():
        raise DataError(f"{where} holds labels from {labels.min()} to {labels.max()}; they must be 0 or 1")
    return labels


def _reviews(content: bytes, where: str) -> list[list[int]]:
    """The word ranks of each review, 1 for the commonest word. Raises DataError."""
    shape, dtype, stream = _header(content, where)
    if len(shape) != 1 or dtype.kind != "O":
        raise DataError(f"{where} holds {dtype} {shape}; it must hold one list a review")
    reviews = _ArrayReader(stream, where).elements()
    if len(reviews) != shape[0]:
        raise DataError(f"{where} announces {shape[0]} reviews and holds {len(reviews)}; download it again")
    for place, ranks in enumerate(reviews):
        if type(ranks) is not list or not all(type(rank) is int and 1 <= rank <= MAX_RANK for rank in ranks):
            raise DataError(f"{where}: review {place} (from 0) is not a list of word ranks from 1 to {MAX_RANK}")
    return reviews


class _Described:
    """Stands for all that a pickled array names and calls; keeps the state that it is given."""

    def __init__(self, *_: object):
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _ArrayReader(pickle.Unpickler):
    """Reads the elements out of a pickled array of objects, and runs nothing that the pickle names."""

    def __init__(self, stream: io.BytesIO, where: str):
        super().__init__(stream)
        self.where = where

    def find_class(self, module: str, name: str) -> type:
        """A stand-in for what an array needs. Raises DataError for everything else."""
        if (module, name) not in ARRAY_PARTS:
            asked = repr(f"{module}.{name}"[:80])
            raise DataError(f"{self.where} asks for {asked}, which no array needs; it was not run; delete the file")
        return _Described

    def elements(self) -> list:
        """The array's elements. Raises DataError where the pickle is damaged or holds something else."""
        try:
            # numpy's array state: version, shape, dtype, whether in Fortran's order, elements (ndarray.__setstate__).
            _, _, _, _, elements = self.load().state
        except DataError:
            raise
        except Exception as error:  # a damaged pickle may raise anything
            raise DataError(f"{self.where} is not a pickled array; delete the file and download it again") from error
        if type(elements) is not list:
            raise DataError(f"{self.where} is a pickled array of numbers; it must hold one list a review")
        return elements
