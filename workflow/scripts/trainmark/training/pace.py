"""The pace of a training on streamed images: how many it trains per second, and how long it will still take."""

import time
from collections.abc import Callable
from dataclasses import dataclass

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


class PaceMeter:
    """Counts the batches of an epoch that a training takes, and tells how far it is.

    samples: of an epoch.
    on_step: called at most every SHOWN_SECONDS.
    """

    def __init__(self, samples: int, epochs: int, on_step: StepCallback) -> None:
        self._samples, self._epochs, self._on_step = samples, epochs, on_step
        self._epoch = 0

    def begin_epoch(self, epoch: int, steps_done: int) -> None:
        """Count from here on the steps of an epoch of which an earlier process has trained some."""
        self._epoch, self._step, self._images = epoch, steps_done, 0
        self._start = self._shown = time.monotonic()

    def count(self, images: int, batch_size: int) -> None:
        """Count a batch, which the training has taken, and tell the pace if it is time to."""
        if not self._epoch:  # compiling
            return
        self._step += 1
        self._images += images
        now = time.monotonic()
        if now - self._shown < SHOWN_SECONDS:
            return
        self._shown = now
        per_second = self._images / (now - self._start)
        remaining = (self._epochs - self._epoch + 1) * self._samples - min(self._step * batch_size, self._samples)
        steps = -(-self._samples // batch_size)
        self._on_step(Pace(self._epoch, self._step, steps, per_second, remaining / per_second))
