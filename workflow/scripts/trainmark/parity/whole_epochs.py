"""Whole epochs as runs train them: full batches of the real data, the last short one too, in float32.

Each trainer also trains a perturbed copy, and both of long epochs once more at a small fraction of the learning rate:
epoch_check compares.

Dropout is off: each framework draws its own masks (adapter_check looks at those).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import Architecture
from trainmark.parity.epoch_check import SLOW, Course, Courses, EpochTrace
from trainmark.parity.sketches import Sketches
from trainmark.recipes.batch_order import EpochFeed, epoch_feed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer

LEAST_STEPS = 30
"""So many steps are trained at the least, in as many epochs as they take."""

SECOND_EPOCH_BATCHES = 8
"""Batches of the second epoch, where the first has LEAST_STEPS."""

MOST_VALUES = 10**10
"""An epoch whose layers put out more values is not trained whole, but this many of them: batches from all over it."""

LEAST_BATCHES = 4
"""Batches of an epoch that is not trained whole, however large they are."""

MOST_TESTED = 10_000
"""Test samples that are evaluated."""

LONG = 100
"""Epochs of more steps together are trained slowly, too."""

COPY_CHANGE = 1e-5
"""By how much each initial weight of a perturbed copy is changed, relative, up or down by numpy's choice."""

COPY_SEED = 4


@dataclass(frozen=True)
class EpochPlan:
    """What is trained. splits: (inputs, labels) in float32. feeds: epochs, one after the other.

    Where splits has no "test", nothing is evaluated. tail: the last full batch and the last, shorter one, as an epoch
    from the initial weights; None with one batch.
    """

    architecture: Architecture
    weights: Weights
    optimizer: Optimizer
    splits: Mapping[str, tuple[np.ndarray, np.ndarray]]
    feeds: tuple[EpochFeed, ...]
    tail: EpochFeed | None


# --- what is trained ----------------------------------------------------------------------------------------------


def chosen_batches(feed: EpochFeed, wanted: int) -> EpochFeed:
    """Some of a feed's batches, from all over it, the last one among them, in their order."""
    if wanted >= feed.steps:
        return feed
    order = np.arange(feed.samples) if feed.order is None else feed.order
    starts = feed.batch_size * np.linspace(0, feed.steps - 1, wanted).round().astype(int)
    chosen = np.concatenate([order[start : start + feed.batch_size] for start in starts])
    return replace(feed, order=chosen, samples=len(chosen))


def last_two_batches(feed: EpochFeed) -> EpochFeed | None:
    """A feed of the last two batches; None where there is one."""
    if feed.steps < 2:
        return None
    order = np.arange(feed.samples) if feed.order is None else feed.order
    last = order[feed.batch_size * (feed.steps - 2) :]
    return replace(feed, order=last, samples=len(last))


def feeds_of(samples: int, batch_size: int | None, seed: tuple[int, ...], most_samples: int) -> tuple[EpochFeed, ...]:
    """The epochs that are trained: of a run's own, the first ones.

    An epoch of more than `most_samples` is not trained whole. Its last batch always is.
    """
    first = epoch_feed(samples, batch_size, seed, 1)
    if samples > most_samples:
        first = chosen_batches(first, max(LEAST_BATCHES, most_samples // first.batch_size))
    epochs = min(ceil(LEAST_STEPS / first.steps), max(1, most_samples // samples))
    whole = [epoch_feed(samples, batch_size, seed, epoch) for epoch in range(2, epochs + 1)]
    more = epoch_feed(samples, batch_size, seed, 2)
    return (first, *whole) if whole else (first, chosen_batches(more, min(SECOND_EPOCH_BATCHES, first.steps)))


def most_samples(architecture: Architecture) -> int:
    """How many samples of this network make MOST_VALUES."""
    return max(1, MOST_VALUES // sum(prod(shape) for shape in architecture.shapes().values()))


def needed_samples(feeds: Sequence[EpochFeed]) -> tuple[np.ndarray, tuple[EpochFeed, ...]]:
    """(indices of the samples that the feeds train on, the feeds with these indices' places in place of them)."""
    if any(feed.order is None for feed in feeds):
        return np.arange(feeds[0].samples), tuple(feeds)
    orders = [np.asarray(feed.order) for feed in feeds]
    indices, places = np.unique(np.concatenate(orders), return_inverse=True)
    ends = np.cumsum([len(order) for order in orders])[:-1]
    return indices, tuple(replace(feed, order=order) for feed, order in zip(feeds, np.split(places, ends), strict=True))


# --- training -----------------------------------------------------------------------------------------------------


def train_epochs(adapter: Adapter, plan: EpochPlan, device: str) -> EpochTrace:
    """Train the epochs as a run does; long ones at a fraction of the learning rate too."""
    steps = tuple(feed.steps for feed in plan.feeds)
    full, wrong_counts = _courses(adapter, plan, device)
    slow = None
    if sum(steps) > LONG:
        slower = replace(plan.optimizer, learning_rate=SLOW * plan.optimizer.learning_rate)
        seen = {"train": plan.splits["train"]}  # the initial weights were evaluated already
        slow, _ = _courses(adapter, replace(plan, optimizer=slower, splits=seen, tail=None), device)
    return EpochTrace(full, slow, steps, wrong_counts)


def _courses(adapter: Adapter, plan: EpochPlan, device: str) -> tuple[Courses, str | None]:
    """(the training and that of its perturbed copy, what was counted otherwise)."""
    architecture = plan.architecture.without_dropout()
    adapter.build(architecture=architecture, weights=plan.weights, optimizer=plan.optimizer, device=device, dtype=DTYPE)
    adapter.check_device(device)
    for split, (inputs, labels) in plan.splits.items():
        adapter.load(split=split, inputs=inputs, labels=labels)
    state = adapter.state()
    adapter.compile(plan.feeds[0])
    own, wrong_counts = _train(adapter, plan, state, plan.weights)
    copy, _ = _train(adapter, plan, state, perturbed(plan.weights))
    return Courses(own, copy), wrong_counts


def signs(weights: Weights, seed: int) -> dict[str, np.ndarray]:
    """1 or -1 for each value, by numpy's choice."""
    generator = np.random.default_rng(seed)
    return {name: 2 * generator.integers(0, 2, array.shape) - 1 for name, array in weights.items()}


def perturbed(weights: Weights, change: float = COPY_CHANGE, seed: int = COPY_SEED) -> Weights:
    """Each value changed by `change`, relative, up or down; zeros stay."""
    drawn = signs(weights, seed)
    return {name: array * (1 + change * drawn[name]) for name, array in weights.items()}


def _train(adapter: Adapter, plan: EpochPlan, state: dict, weights: Weights) -> tuple[Course, str | None]:
    """(the training, what was counted otherwise than the first such epoch has it)."""
    adapter.set_state(state)
    adapter.set_weights(weights)
    before = adapter.weights()
    logits = Sketches.of({"logits": adapter.predict("test")} if "test" in plan.splits else {})
    losses: list[np.ndarray] = []
    wrong_counts, updates = None, 0
    for epoch, feed in enumerate(plan.feeds, start=1):
        losses.append(adapter.train_epoch(feed))
        updates += feed.steps
        if wrong := feed.wrong_counts(adapter.counted(), updates):
            wrong_counts = wrong_counts or f"{wrong} in epoch {epoch}"
    moved = _moved(before, adapter.weights())
    tail_losses, tail_moved = np.zeros(0), Sketches.of({})
    if plan.tail:
        adapter.set_state(state)
        adapter.set_weights(weights)
        tail_losses = adapter.train_epoch(plan.tail)
        tail_moved = _moved(before, adapter.weights())
    return Course(np.concatenate(losses), tail_losses, moved, tail_moved, logits), wrong_counts


def _moved(before: Weights, after: Weights) -> Sketches:
    with np.errstate(all="ignore"):
        return Sketches.of({name: array.astype(np.float64) - before[name] for name, array in after.items()})
