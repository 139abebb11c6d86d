"""The IDX format of MNIST and similar datasets: gzip-compressed big-endian arrays of unsigned bytes.

Format: http://yann.lecun.com/exdb/mnist/ (magic 0x08 for unsigned bytes, number of axes, sizes, data).
"""

import gzip
import struct
import zlib
from collections.abc import Mapping
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np

from trainmark.datasets.formats._arrays import source_folder
from trainmark.datasets.samples import Arrays, Folders, class_names_of, expect_each_class
from trainmark.errors import DataError, expect_damage

FORMAT = {
    "kind": "images",
    "required": ["files|folder", "image_shape", "classes", "samples"],
    "optional": ["class_names"],
    "own_files": "*-ubyte.gz",
}

UNSIGNED_BYTE = 0x08

FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}


def read(folders: Folders, entry: Mapping) -> Arrays:
    """Read the four files of an MNIST-like dataset. Raises DataError if they do not match."""
    folder = source_folder(folders, entry)
    splits = {}
    for split, (image_file, label_file) in FILES.items():
        images, labels = read_idx(folder / image_file), read_idx(folder / label_file)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{folder}: {image_file} holds {images.shape} and {label_file} {labels.shape}; "
                "they must hold as many images (samples, height, width) as labels (samples)"
            )
        splits[split] = (images[:, np.newaxis], labels.astype(np.int64))
    expect_each_class(folder / FILES["train"][1], [labels.tolist() for _, labels in splits.values()], entry["classes"])
    return Arrays(splits, class_names_of(entry))


def read_idx(path: Path) -> np.ndarray:
    """The array of one .gz IDX file, uint8. Raises DataError if it is missing, cut off, damaged or of another type."""
    if not path.is_file():
        raise DataError(f"{path} is missing; the format idx needs {', '.join(chain(*FILES.values()))}")
    try:
        with gzip.open(path) as stream:
            data = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is not a complete gzip file ({error}); delete it and get it again") from error
    header_bytes = 4 + 4 * data[3] if len(data) > 3 else 4
    if data[:3] != bytes([0, 0, UNSIGNED_BYTE]) or len(data) < header_bytes:
        raise DataError(f"{path} is not an IDX file of unsigned bytes: it begins with {data[:4].hex() or 'nothing'}")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    if len(data) - header_bytes != prod(shape):
        raise DataError(f"{path} announces {prod(shape)} values of shape {shape} and holds {len(data) - header_bytes}")
    return np.frombuffer(data, np.uint8, offset=header_bytes).reshape(shape)
