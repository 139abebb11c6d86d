"""The pace of a training on streamed images: how many it trains per second, and how long it will still take."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.stream import Batch, Stream

SHOWN_SECONDS = 5.0
"""Least time between two calls of a StepCallback."""


@dataclass(frozen=True)
class Pace:
    """How far a training is.

    epoch: current epoch, from 1. step, steps: current step of the epoch, and their number.
    images_per_second: since the epoch began, or this process went on in it.
    remaining_seconds: of all epochs, without evaluation.
    """

    epoch: int
    step: int
    steps: int
    images_per_second: float
    remaining_seconds: float


StepCallback = Callable[[Pace], None]
"""Called from time to time within an epoch."""


class PacedStream(Stream):
    """A stream of training images that tells how far the training is.

    on_step: called at most every SHOWN_SECONDS.
    """

    def __init__(self, stream: Stream, epochs: int, on_step: StepCallback) -> None:
        self._stream, self._epochs, self._on_step = stream, epochs, on_step
        self.labels, self.input_shape, self.dtype = stream.labels, stream.input_shape, stream.dtype
        self.evaluation_batch_size = stream.evaluation_batch_size
        self._epoch = 0

    @property
    def waiting_seconds(self) -> float:  # type: ignore[override]  # read only here
        """See `Stream`."""
        return self._stream.waiting_seconds

    def begin_epoch(self, epoch: int, steps_done: int) -> None:
        """Count from here on the steps of an epoch of which an earlier process has trained some."""
        self._epoch, self._step, self._images = epoch, steps_done, 0
        self._start = self._shown = time.monotonic()

    def training_batches(self, feed: EpochFeed) -> Iterator[Batch]:
        """See `Stream`."""
        for inputs, labels in self._stream.training_batches(feed):
            yield inputs, labels
            if self._epoch:  # not while compiling
                self._count(len(labels), feed.batch_size)

    def _count(self, images: int, batch_size: int) -> None:
        """Count a batch, which the training has taken, and tell the pace if it is time to."""
        self._step += 1
        self._images += images
        now = time.monotonic()
        if now - self._shown < SHOWN_SECONDS:
            return
        self._shown = now
        per_second = self._images / (now - self._start)
        of_epoch = len(self.labels)
        remaining = (self._epochs - self._epoch + 1) * of_epoch - min(self._step * batch_size, of_epoch)
        steps = -(-of_epoch // batch_size)
        self._on_step(Pace(self._epoch, self._step, steps, per_second, remaining / per_second))

    def stored_batches(self, batch_size: int, samples: np.ndarray | None = None) -> Iterator[Batch]:
        """See `Stream`."""
        return self._stream.stored_batches(batch_size, samples)

    def close(self) -> None:
        """See `Stream`."""
        self._stream.close()
