"""The order of the training samples, the same for every framework."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np


@dataclass(frozen=True)
class EpochFeed:
    """One epoch over arrays that are already loaded.

    order: sample indices, int64, (samples,); None for the stored order.
    batch_size: number of samples per step; the last step has the remaining ones.
    samples: number of samples in the epoch.
    dropout_seed: seed of the framework's own dropout generator at the start of the epoch. With it an epoch depends only
        on the weights, the optimizer's state and the feed.
    """

    order: np.ndarray | None
    batch_size: int
    samples: int
    dropout_seed: int

    @property
    def steps(self) -> int:
        """Number of batches in the epoch."""
        return ceil(self.samples / self.batch_size)

    def batch_sizes(self) -> np.ndarray:
        """Return the number of samples of each step, int64, (steps,)."""
        sizes = np.full(self.steps, self.batch_size)
        sizes[-1] = self.samples - self.batch_size * (self.steps - 1)
        return sizes

    def one_of_each_size(self) -> "EpochFeed":
        """Return a feed with one batch of each size: a full one and, if the last is smaller, one of its size."""
        last = self.samples % self.batch_size
        count = min(self.samples, self.batch_size + last)
        return replace(self, order=None if self.order is None else self.order[:count], samples=count)

    def wrong_counts(self, counted: Mapping[str, int], updates: int) -> str | None:
        """Return a phrase such as "counted 20 batches instead of 21" if a framework's counts are wrong, otherwise None.

        counted: return value of `Adapter.counted` after the epoch.
        updates: the expected number of updates since the initial weights.
        """
        expected = {"samples": self.samples, "batches": self.steps, "updates": updates}
        wrong = [f"{counted[what]} {what} instead of {due}" for what, due in expected.items() if counted[what] != due]
        return f"counted {' and '.join(wrong)}" if wrong else None

    def sha256(self) -> str:
        """Return a digest of all fields. Feeds that train differently have different digests."""
        order = b"" if self.order is None else self.order.astype("<i8").tobytes()
        text = f"{self.batch_size} {self.samples} {self.dropout_seed} "
        return hashlib.sha256(text.encode() + order).hexdigest()


def run_seed(seed: int, repeat: int) -> tuple[int, int]:
    """Return the seed sequence of a run: the experiment's seed and the repeat's number, so that repeats differ."""
    return (seed, repeat)


def epoch_feed(samples: int, batch_size: int | None, seed: tuple[int, ...], epoch: int) -> EpochFeed:
    """Return the feed of an epoch (counted from 1): a new permutation of the samples.

    If the whole training set is one batch (`batch_size` None, or at least `samples`), the stored order is used, because
    the order of one batch affects only rounding.
    """
    generator = np.random.default_rng([*seed, 1, epoch])
    dropout_seed = int(generator.integers(2**31))
    if batch_size is None or batch_size >= samples:
        return EpochFeed(None, samples, samples, dropout_seed)
    return EpochFeed(generator.permutation(samples), batch_size, samples, dropout_seed)
