"""Keras's imdb.npz: the IMDB reviews as lists of word ranks, without start token and offset.

Format: keras.datasets.imdb. The reviews are pickled, and a pickle may run any program: it is loaded only if the file
has the SHA-256 of its entry.
"""

import hashlib
import io
from collections.abc import Mapping

import numpy as np

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.formats.reviews import CLASS_NAMES, only_file
from trainmark.datasets.samples import Arrays, Folders
from trainmark.datasets.tokens import encode_ranks
from trainmark.errors import DataError

FORMAT = {
    "kind": "tokens",
    "required": ["files", "classes", "samples", "sequence_length", "vocabulary_size"],
    "optional": [],
    "unpickles": True,
}


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The reviews of each split as token ids, in the order of the file. Raises DataError if the file is not right."""
    path = only_file(folders, entry, r"\.npz$", "file like Keras's imdb.npz (.npz)")
    content = path.read_bytes()
    expected = next(file.get("sha256") for file in entry["files"] if file["name"] == path.name)
    if hashlib.sha256(content).hexdigest() != expected:
        raise DataError(f"{path} has not the SHA-256 of its entry, and was not loaded; delete it and fetch it again")
    splits = {}
    try:
        with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
            for split in SPLITS:
                rows = [
                    encode_ranks(ranks, entry["vocabulary_size"], entry["sequence_length"])
                    for ranks in arrays[f"x_{split}"]
                ]
                splits[split] = (np.stack(rows), arrays[f"y_{split}"].astype(np.int64))
                if len(rows) != len(splits[split][1]):
                    raise ValueError(f"{len(rows)} reviews and {len(splits[split][1])} labels of {split}")
    except Exception as error:  # another file may raise anything
        raise DataError(f"{path} is not a file like Keras's imdb.npz ({type(error).__name__}: {error})") from error
    return Arrays(splits, CLASS_NAMES, kind="tokens")
