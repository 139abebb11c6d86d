"""The splits of a prepared dataset as a training takes them: arrays in memory, or streams of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.loading.streams import open_streams
from trainmark.recipes import input_transform
from trainmark.recipes.recipe import DTYPE, is_streamed
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.stream import Stream

Split = tuple[np.ndarray | Stream, np.ndarray]
"""(network inputs, labels) of a split."""


def open_splits(
    training: ResolvedTraining,
    dataset_folder: Path,
    mean_file: Path | None,
    cpus: int,
    packed: Path | None,
    names: Sequence[str] = SPLITS,
) -> dict[str, Split]:
    """Return splits of a dataset, by name. What is not described here is described in `open_streams`.

    training: what the splits are for.
    mean_file: None for token ids.
    names: the splits to open. Only with all of them, the arrays of a dataset are checked against its content_sha256.
    """
    mean, transform = np.load(mean_file, allow_pickle=False) if mean_file else None, training.transform
    if is_streamed(transform, prepared.read_manifest(dataset_folder)["kind"]):
        assert transform is not None  # token ids are not streamed
        streams = open_streams(dataset_folder, mean, transform, DTYPE, training.settings["loader"], cpus, packed, names)
        return {split: (stream, stream.labels) for split, stream in streams.items()}
    whole = set(names) == set(SPLITS)
    arrays = (
        prepared.read_splits(dataset_folder)
        if whole
        else {split: prepared.read_split(dataset_folder, split) for split in names}
    )
    return {
        split: (input_transform.network_inputs(stored, mean, transform, DTYPE), np.asarray(labels))
        for split, (stored, labels) in arrays.items()
    }
