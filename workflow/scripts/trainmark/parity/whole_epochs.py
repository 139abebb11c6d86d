"""Whole epochs, trained as runs train them: full batches of the real data, the short last one included, in float32.

Only the learning rate is a small fraction of the recipe's. epoch_check compares the results of two trainers.

Dropout is off, because each framework draws its own masks; adapter_check tests those.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import Architecture
from trainmark.parity.epoch_check import SLOW_RATE, EpochTrace
from trainmark.parity.sketches import Sketches
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer
from trainmark.recipes.stream import Stream

MIN_STEPS = 30
"""Minimum number of steps to train; as many epochs are trained as they take."""

SECOND_EPOCH_BATCHES = 8
"""Number of batches of the second epoch to train if the first epoch already has MIN_STEPS steps; half of those of the
first at most."""

MAX_VALUES = 10**10
"""Maximum number of layer output values in an epoch. Of a larger epoch, batches spread over it are trained."""

LARGE_NETWORK_PARAMETERS = 5_000_000
"""A network with more parameters is large, and trains no epochs here: a few of its steps take as long as an epoch of
others. The audit replays an epoch of a run."""

MIN_BATCHES = 4
"""Minimum number of batches to train of an epoch that is too large, whatever their size."""

MAX_TEST_SAMPLES = 10_000
"""Maximum number of test samples to evaluate."""

Splits = Mapping[str, tuple[np.ndarray | Stream, np.ndarray]]
"""(network inputs, labels) by split."""


@dataclass(frozen=True)
class CertifiedEpochs:
    """The whole epochs that every trainer of a certificate trains.

    weights: the initial weights.
    optimizer: the recipe's optimizer.
    splits: inputs in float32; without "test" nothing is evaluated.
    feeds: the epochs, in order; none of a large network.
    """

    architecture: Architecture
    weights: Weights
    optimizer: Optimizer
    splits: Splits
    feeds: tuple[EpochFeed, ...]


# --- what is trained ----------------------------------------------------------------------------------------------


def spread_batches(feed: EpochFeed, count: int) -> EpochFeed:
    """Return a feed of `count` batches spread evenly over another feed, in their order, with its last batch."""
    if count >= feed.steps:
        return feed
    order = np.arange(feed.samples) if feed.order is None else feed.order
    starts = feed.batch_size * np.linspace(0, feed.steps - 1, count).round().astype(int)
    chosen = np.concatenate([order[start : start + feed.batch_size] for start in starts])
    return replace(feed, order=chosen, samples=len(chosen))


def certified_feeds(feed: Callable[[int], EpochFeed], max_samples: int) -> tuple[EpochFeed, ...]:
    """Return the first epochs of a run, as many as MIN_STEPS steps take.

    If one epoch has enough steps, some batches of the second epoch follow, its last batch among them. Of an epoch with
    more than `max_samples` samples only batches spread over it are used, always with its last batch.

    feed: returns an epoch of the run by its number, from 1.
    """
    first = feed(1)
    samples = first.samples
    if samples > max_samples:
        first = spread_batches(first, max(MIN_BATCHES, max_samples // first.batch_size))
    epochs = min(ceil(MIN_STEPS / first.steps), max(1, max_samples // samples))
    more_epochs = [feed(epoch) for epoch in range(2, epochs + 1)]
    if more_epochs:
        return (first, *more_epochs)
    return first, spread_batches(feed(2), min(SECOND_EPOCH_BATCHES, ceil(first.steps / 2)))


def is_large(architecture: Architecture) -> bool:
    """Return whether a network is so large that fewer steps of it are certified."""
    return architecture.parameter_count() > LARGE_NETWORK_PARAMETERS


def max_samples(architecture: Architecture) -> int:
    """Return how many samples of an epoch are trained: those with MAX_VALUES layer output values in this network."""
    return max(1, MAX_VALUES // sum(prod(shape) for shape in architecture.shapes().values()))


def needed_samples(feeds: Sequence[EpochFeed]) -> tuple[np.ndarray, tuple[EpochFeed, ...]]:
    """Return (indices of the samples that the feeds use, the feeds renumbered to positions in these indices)."""
    if any(feed.order is None for feed in feeds):
        return np.arange(feeds[0].samples), tuple(feeds)
    orders = [np.asarray(feed.order) for feed in feeds]
    indices, positions = np.unique(np.concatenate(orders), return_inverse=True)
    ends = np.cumsum([len(order) for order in orders])[:-1]
    renumbered = zip(feeds, np.split(positions, ends), strict=True)
    return indices, tuple(replace(feed, order=order) for feed, order in renumbered)


# --- training -----------------------------------------------------------------------------------------------------


def train_epochs(adapter: Adapter, epochs: CertifiedEpochs, device: str) -> EpochTrace | None:
    """Train the epochs as a run does, but at the small learning rate, and return what the trainer showed.

    None if there are no epochs.
    """
    if not epochs.feeds:
        return None
    architecture, optimizer = epochs.architecture.without_dropout(), epochs.optimizer
    adapter.build(architecture=architecture, weights=epochs.weights, optimizer=optimizer, device=device, dtype=DTYPE)
    adapter.check_device(device)
    for split, (inputs, labels) in epochs.splits.items():
        adapter.load(split=split, inputs=inputs, labels=labels)
    feeds = [_at_slow_rate(feed, optimizer) for feed in epochs.feeds]
    state = adapter.state()
    adapter.compile(feeds[0])
    adapter.set_state(state)
    before = adapter.weights()
    logits = Sketches.of({"logits": adapter.predict("test")} if "test" in epochs.splits else {})
    losses: list[np.ndarray] = []
    wrong_counts, updates = None, 0
    for epoch, feed in enumerate(feeds, start=1):
        losses.append(adapter.train_epoch(feed))
        updates += feed.steps
        if wrong := feed.wrong_counts(adapter.counted(), updates):
            wrong_counts = wrong_counts or f"{wrong} in epoch {epoch}"
    return EpochTrace(np.concatenate(losses), _weight_change(before, adapter.weights()), logits, wrong_counts)


def _at_slow_rate(feed: EpochFeed, optimizer: Optimizer) -> EpochFeed:
    rates = {"learning_rate": optimizer.learning_rate} | dict(feed.rates)
    rates["learning_rate"] *= SLOW_RATE
    return replace(feed, rates=tuple(rates.items()))


def _weight_change(before: Weights, after: Weights) -> Sketches:
    with np.errstate(all="ignore"):
        return Sketches.of({name: array.astype(np.float64) - before[name] for name, array in after.items()})
