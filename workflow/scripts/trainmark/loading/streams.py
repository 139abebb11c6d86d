"""Streams of the splits of a prepared dataset of images."""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from time import perf_counter

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.errors import DataError
from trainmark.loading.buffers import Buffers
from trainmark.loading.pieces import Piece, SplitLoader, windows_of
from trainmark.loading.sources import ArraySource, Source
from trainmark.loading.workers import Workers
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.input_transform import Windows, draw_windows
from trainmark.recipes.recipe import InputTransform
from trainmark.recipes.stream import Batch, Stream

LARGEST_PIECE = 16
"""Most samples of a piece; handing it out then costs about a hundredth of decoding them."""

BATCHES_AHEAD = 2
"""Least number of batches that are loaded ahead: while the last piece of one is awaited, others start on the next."""

PIECES_AHEAD = 2
"""Least number of pieces for each job in the batches ahead."""


def open_streams(
    dataset_folder: Path,
    mean_image: np.ndarray | None,
    transform: InputTransform,
    dtype: str,
    settings: Mapping,
    cpus: int,
    packed: Path | None = None,
    splits: Sequence[str] = SPLITS,
) -> dict[str, "ImageStream"]:
    """Open splits of a prepared dataset of images, by split. They share their workers: closing one closes all.

    mean_image: float64, (channels, height, width); may be None if the transform does not subtract it.
    settings: the experiment's setting `loader`.
    cpus: number of CPUs of the run: as many jobs are used if the setting does not say how many.
    packed: folder of the packed store; needed for image files that are read from it.

    Raises DataError if files of the dataset are damaged, ConfigError if the settings ask for a store that there is not,
    and LoaderError if processes can't be started.
    """
    opened = {split: _open_source(dataset_folder, split, settings["store"], packed) for split in splits}
    loaders = {split: SplitLoader(source, mean_image, transform, dtype) for split, (source, _) in opened.items()}
    workers = Workers(settings["iterator"], loaders, settings["jobs"] or cpus)
    return {split: ImageStream(split, labels, transform, workers) for split, (_, labels) in opened.items()}


def _open_source(folder: Path, split: str, store: str, packed: Path | None) -> tuple[Source, np.ndarray]:
    kind = prepared.read_manifest(folder)["kind"]
    if kind == "image_lists":
        from trainmark.loading.photographs import open_photographs  # here: a training on arrays needs no decoders

        return open_photographs(folder, split, store, packed)
    if kind != "images":
        raise DataError(f"{folder} holds {kind}; only a dataset of images can be streamed")
    stored, labels = prepared.read_split(folder, split)
    assert isinstance(stored, np.memmap)
    return ArraySource(stored, store), np.asarray(labels, np.int64)


@dataclass
class _Loading:
    """A batch that is being loaded."""

    inputs: np.ndarray
    labels: np.ndarray
    pieces: list[Future[None]]


class ImageStream(Stream):
    """The images of one split, in batches that are loaded ahead by workers.

    A batch is a view on memory that is used again when nothing refers to the batch any more.
    """

    def __init__(self, split: str, labels: np.ndarray, transform: InputTransform, workers: Workers) -> None:
        self.labels, self._split, self._transform, self._workers = labels, split, transform, workers
        self._loader = workers.loaders[split]
        self.input_shape, self.dtype = self._loader.input_shape, self._loader.dtype.name
        self.waiting_seconds = 0.0
        self._drawn: tuple[tuple[int, ...], Windows] | None = None
        self._buffers = Buffers(workers.memory_file)

    def training_batches(self, feed: EpochFeed) -> Iterator[Batch]:
        """See `Stream.training_batches`. Raises DataError for a damaged image, LoaderError if a worker process dies."""
        order = np.arange(feed.samples) if feed.order is None else feed.order
        if self._drawn is None or self._drawn[0] != feed.augmentation_seed:  # the parts of an epoch share its windows
            self._drawn = feed.augmentation_seed, self._windows(self._transform, feed.augmentation_seed)
        for batch in self._timed(self._batches(order, feed.batch_size, self._drawn[1])):
            samples = len(batch[1])
            yield batch
            del batch  # its memory can be used again
            if self.on_batch:
                self.on_batch(samples, feed.batch_size)

    def stored_batches(self, batch_size: int, samples: np.ndarray | None = None) -> Iterator[Batch]:
        """See `Stream.stored_batches`. Raises what `training_batches` raises."""
        windows = self._windows(replace(self._transform, random_crop=False, random_flip=False), (0,))
        samples = np.arange(len(self.labels)) if samples is None else samples
        return self._timed(self._batches(samples, batch_size, windows))

    def close(self) -> None:
        """See `Stream.close`. Closes the streams of the other splits, too."""
        self._workers.close()

    def _windows(self, transform: InputTransform, seed: tuple[int, ...]) -> Windows:
        return draw_windows(len(self.labels), self._loader.source.shape[1:], transform, seed)

    def _timed(self, batches: Generator[Batch, None, None]) -> Iterator[Batch]:
        """Yield the batches, and add the time for which each was waited for to `waiting_seconds`."""
        with closing(batches):
            while True:
                start = perf_counter()
                batch = next(batches, None)
                self.waiting_seconds += perf_counter() - start
                if batch is None:
                    return
                yield batch
                del batch  # its memory can be used again

    def _batches(self, order: np.ndarray, batch_size: int, windows: Windows) -> Generator[Batch, None, None]:
        """Yield the batches in their order while the next ones are loaded."""
        size = max(1, min(LARGEST_PIECE, batch_size // self._workers.jobs))
        ahead = max(BATCHES_AHEAD, ceil(PIECES_AHEAD * self._workers.jobs * size / batch_size))
        ahead = ahead if self._workers.is_ahead else 0
        loading: deque[_Loading] = deque()
        try:
            for start in range(0, len(order), batch_size):
                loading.append(self._start(order[start : start + batch_size], batch_size, size, windows))
                if len(loading) > ahead:
                    yield self._finished(loading)
            while loading:
                yield self._finished(loading)
        finally:  # also if the caller stops early, or a piece fails
            rest = [piece for batch in loading for piece in batch.pieces if not piece.cancel()]
            wait(rest)

    def _start(self, samples: np.ndarray, batch_size: int, piece_size: int, windows: Windows) -> _Loading:
        memory, offset = self._buffers.take(batch_size * self._loader.sample_bytes)
        batch = _Loading(self._loader.batch_in(memory, len(samples)), self.labels[samples], [])
        for first in range(0, len(samples), piece_size):
            part = samples[first : first + piece_size]
            piece = Piece(self._split, self._loader.source.keys(part), windows_of(windows, part))
            batch.pieces.append(self._workers.submit(piece, batch.inputs, first, (offset, memory.nbytes)))
        return batch

    def _finished(self, loading: deque[_Loading]) -> Batch:
        for piece in loading[0].pieces:
            self._workers.wait_for(piece)
        batch = loading.popleft()
        return batch.inputs, batch.labels
