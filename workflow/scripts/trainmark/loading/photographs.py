"""Photographs: decoded from their files whenever they are needed, or read from the packed store.

The only module of the package that imports image decoders, so that a training on arrays does without them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import store_file
from trainmark.datasets.images.decoding import mirror
from trainmark.datasets.images.lists import load_checked, prepared_list
from trainmark.datasets.images.packed import IMAGE_SHAPE, open_store
from trainmark.errors import ConfigError, DataError
from trainmark.loading.sources import ArraySource, Source

HEIGHT, WIDTH, CHANNELS = IMAGE_SHAPE


class Photographs(Source):
    """Photographs of either store."""

    channels_last = True

    def mirror(self, window: np.ndarray) -> np.ndarray:
        """See `Source.mirror`."""
        return np.moveaxis(mirror(np.moveaxis(window, 0, -1)), -1, 0)


class FileSource(Photographs):
    """Image files below a folder. The names are not copied to worker processes: `keys` are names."""

    shape = (CHANNELS, HEIGHT, WIDTH)

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root, self._names = root, names

    def __getstate__(self) -> dict:
        return vars(self) | {"_names": ()}

    def keys(self, samples: np.ndarray) -> Sequence[str]:
        """See `Source.keys`."""
        return [self._names[number] for number in samples.tolist()]

    def read(self, key: str) -> np.ndarray:
        """See `Source.read`."""
        return np.moveaxis(load_checked(self._root / key), -1, 0)


class PackedSource(Photographs, ArraySource):
    """The packed store."""


def open_photographs(folder: Path, split: str, store: str, packed: Path | None) -> tuple[Source, np.ndarray]:
    """Return the photographs of a prepared split and their labels.

    store: the setting loader.store. packed: folder of the packed store; needed unless `store` is "files".
    Raises DataError if the list or the store is damaged, and ConfigError if there is no packed store.
    """
    manifest = prepared.read_manifest(folder)
    entries = prepared_list(folder, split)
    labels = np.array([label for _, label in entries], np.int64)
    if store == "files":
        return FileSource(prepared.image_root(folder, manifest), [name for name, _ in entries]), labels
    if packed is None:
        raise ConfigError(
            f"loader.store: found {store}, but the dataset {manifest['dataset']} has no packed store; set it to files, "
            "or add `packed: true` to the dataset's entry"
        )
    file = store_file(packed, split)
    stored = open_store(file)
    if len(stored) != len(entries):
        raise DataError(
            f"{file} holds {len(stored)} images, and the list of {folder} has {len(entries)}; delete "
            "the store and run snakemake again"
        )
    return PackedSource(stored, store), labels
