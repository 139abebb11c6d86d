"""The order in which samples are trained on, the same for every framework."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np


@dataclass(frozen=True)
class EpochFeed:
    """One epoch over arrays that are already loaded.

    order: sample indices, int64, (samples,), or None where samples come in their stored order.
    batch_size: samples a step; the last step has what is left.
    samples: number of samples in the epoch.
    dropout_seed: seeds the framework's own dropout generator at the start of the epoch, so that an epoch
        depends on nothing but the weights, the optimizer's state and the feed.
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
        """Samples in each step, int64, (steps,)."""
        sizes = np.full(self.steps, self.batch_size)
        sizes[-1] = self.samples - self.batch_size * (self.steps - 1)
        return sizes

    def one_of_each_size(self) -> "EpochFeed":
        """A feed of one batch of each size that this one has: the first and, where the last is smaller, one like it."""
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
        """Digest of everything that the feed decides: two feeds that train differently have different ones."""
        order = b"" if self.order is None else self.order.astype("<i8").tobytes()
        text = f"{self.batch_size} {self.samples} {self.dropout_seed} "
        return hashlib.sha256(text.encode() + order).hexdigest()


def run_seed(seed: int, repeat: int) -> tuple[int, int]:
    """The seed sequence of a run: the experiment's seed and the repeat's number, so that repeats differ."""
    return (seed, repeat)


def epoch_feed(samples: int, batch_size: int | None, seed: tuple[int, ...], epoch: int) -> EpochFeed:
    """The feed of one epoch (counted from 1): a fresh permutation, or the stored order for one full batch.

    A full batch (`batch_size` None) is not shuffled: its order changes nothing but rounding.
    """
    generator = np.random.default_rng([*seed, 1, epoch])
    dropout_seed = int(generator.integers(2**31))
    if batch_size is None or batch_size >= samples:
        return EpochFeed(None, samples, samples, dropout_seed)
    return EpochFeed(generator.permutation(samples), batch_size, samples, dropout_seed)
