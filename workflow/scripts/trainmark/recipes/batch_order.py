"""The order of the training samples, the same for every framework."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

AUGMENTATION_SEED = 3
"""Part of the seed of an epoch's augmentation; 0 to 2 are those of weights, order and the certificate's masks."""


@dataclass(frozen=True)
class EpochFeed:
    """One epoch, or a part of one, over a split.

    order: sample indices, int64, (samples,); None for the stored order.
    batch_size: number of samples per step; the last step has the remaining ones.
    dropout_seed: seed of the framework's own dropout generator at the start of the epoch. With it an epoch depends only
        on the weights, the optimizer's state and the feed.
    augmentation_seed: seed of the random crops and flips of the epoch (input_transform.draw_windows).
    rates: constants of the update rule that have other values in this epoch, by name, such as learning_rate.
    """

    order: np.ndarray | None
    batch_size: int
    samples: int
    dropout_seed: int
    augmentation_seed: tuple[int, ...] = ()
    rates: tuple[tuple[str, float], ...] = ()

    @property
    def steps(self) -> int:
        """Number of batches in the epoch."""
        return ceil(self.samples / self.batch_size)

    def places(self) -> Iterator[slice]:
        """Yield the positions of each step's samples in the epoch."""
        for start in range(0, self.samples, self.batch_size):
            yield slice(start, min(start + self.batch_size, self.samples))

    def batches(self, inputs: Any, labels: Any) -> Iterator[tuple[Any, Any]]:
        """Yield (inputs, labels) of each step, taken from arrays of the split's samples."""
        for place in self.places():
            batch = place if self.order is None else self.order[place]
            yield inputs[batch], labels[batch]

    def whole_batches(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sample indices of the whole batches, int32, (steps, batch size), and of a smaller last one.

        Of a feed with an order. The last one is empty if all batches are whole.
        """
        assert self.order is not None
        count = self.samples // self.batch_size
        whole, last = np.split(self.order.astype(np.int32), [count * self.batch_size])
        return whole.reshape(count, self.batch_size), last

    def batch_sizes(self) -> np.ndarray:
        """Return the number of samples of each step, int64, (steps,)."""
        sizes = np.full(self.steps, self.batch_size)
        sizes[-1] = self.samples - self.batch_size * (self.steps - 1)
        return sizes

    def parts(self, steps: int | None) -> list["EpochFeed"]:
        """Return the feed in parts of at most `steps` steps, each with a dropout seed of its own; whole for None.

        The first part has the feed's dropout seed.
        """
        if steps is None or steps >= self.steps:
            return [self]
        order = np.arange(self.samples) if self.order is None else self.order
        orders = [
            order[start : start + steps * self.batch_size] for start in range(0, len(order), steps * self.batch_size)
        ]
        seeds = np.random.default_rng(self.dropout_seed).integers(2**31, size=len(orders)).tolist()
        return [
            replace(self, order=part, samples=len(part), dropout_seed=seed)
            for part, seed in zip(orders, [self.dropout_seed, *seeds[1:]], strict=True)
        ]

    def shard(self, rank: int, workers: int) -> "EpochFeed":
        """Return the share of one of several workers: consecutive samples of each batch, and a dropout seed of its own.

        Raises ValueError if the last batch, which may be a smaller one, has fewer samples than there are workers.
        """
        if workers == 1:
            return self
        sizes, order = self.batch_sizes(), np.arange(self.samples) if self.order is None else self.order
        if sizes[-1] < workers:
            raise ValueError(f"a batch of {sizes[-1]} samples has none for some of {workers} workers")
        shares = [order[place][share_of(size, rank, workers)] for place, size in zip(self.places(), sizes, strict=True)]
        return replace(
            self,
            order=np.concatenate(shares),
            batch_size=len(shares[0]),
            samples=sum(map(len, shares)),
            dropout_seed=int(np.random.default_rng([self.dropout_seed, rank]).integers(2**31)),
        )

    def weights_of_share(self, share: "EpochFeed", workers: int) -> np.ndarray:
        """Return the factor on the mean loss of a rank's share in each step, float64, (steps,).

        With it the mean of the ranks' gradients is the gradient of the mean over all samples of the step.
        """
        weights: np.ndarray = share.batch_sizes() * workers / self.batch_sizes()
        return weights

    def one_of_each_size(self) -> "EpochFeed":
        """Return a feed with one batch of each size: a full one and, if the last is smaller, one of its size."""
        last = self.samples % self.batch_size
        count = min(self.samples, self.batch_size + last)
        return replace(self, order=None if self.order is None else self.order[:count], samples=count)

    def wrong_counts(self, counted: Mapping[str, int], updates: int) -> str | None:
        """Return a phrase such as "counted 20 batches instead of 21" if a framework's counts are wrong, otherwise None.

        counted: return value of `Adapter.counted` after the epoch.
        updates: the expected number of updates since the optimizer was made.
        """
        expected = {"samples": self.samples, "batches": self.steps, "updates": updates}
        wrong = [f"{counted[what]} {what} instead of {due}" for what, due in expected.items() if counted[what] != due]
        return f"counted {' and '.join(wrong)}" if wrong else None

    def sha256(self) -> str:
        """Return a digest of all fields. Feeds that train differently have different digests."""
        order = b"" if self.order is None else self.order.astype("<i8").tobytes()
        text = f"{self.batch_size} {self.samples} {self.dropout_seed} {self.augmentation_seed} {self.rates} "
        return hashlib.sha256(text.encode() + order).hexdigest()

    def batches_sha256(self) -> str:
        """Return the first digits of a digest of all fields but the rates, for records: what the seed decides."""
        return replace(self, rates=()).sha256()[:16]


def share_of(samples: int, rank: int, workers: int) -> slice:
    """Return the places of a rank's samples in a batch. The shares differ by a sample at most; the first are larger."""
    size, larger = divmod(samples, workers)
    first = rank * size + min(rank, larger)
    return slice(first, first + size + (rank < larger))


def epoch_feed(
    samples: int,
    batch_size: int | None,
    seed: tuple[int, ...],
    epoch: int,
    rates: tuple[tuple[str, float], ...] = (),
) -> EpochFeed:
    """Return the feed of an epoch (counted from 1): a new permutation of the samples. rates: see `EpochFeed`.

    If the whole training set is one batch (`batch_size` None, or at least `samples`), the stored order is used, because
    the order of one batch affects only rounding.
    """
    generator = np.random.default_rng([*seed, 1, epoch])
    dropout_seed = int(generator.integers(2**31))
    augmentation_seed = (*seed, AUGMENTATION_SEED, epoch)
    if batch_size is None or batch_size >= samples:
        return EpochFeed(None, samples, samples, dropout_seed, augmentation_seed, rates)
    return EpochFeed(generator.permutation(samples), batch_size, samples, dropout_seed, augmentation_seed, rates)
