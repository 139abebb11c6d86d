"""How far two trainers part in whole epochs that both trained as runs do (whole_epochs), and how far they may.

Rounding alone parts two trainers, and a training magnifies it. How far is measured: each trainer also trains a
perturbed copy. Two trainers that part by more than ALLOWED times as much as both part from their own copies do not
train the same. A long epoch may magnify rounding to anything, and hide an error behind it; at a small fraction of the
learning rate it magnifies nothing. So long ones are trained at such a rate too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from trainmark.parity.sketches import Sketches, scalar_difference

ALLOWED = 10.0
"""Two trainers may part this many times as far as both part from their copies.

Equal ones were seen to part .003 times as far in small networks, and 1.5 times in one that magnifies any difference.
"""

AHEAD = 4
"""Steps after one in which its copy may show how sensitive it is: two losses may be equal by chance.

In ResNet-50 with batches of 8 Chainer and Keras on JAX were 3e-2 apart in the second step, and Chainer's copy 2e-3.
"""

SLOW = 1e-3
"""Of the learning rate. In 600 steps of MNIST, Adam turns rounding into a third of a loss; at this rate into 3e-7."""

AT_SLOW_RATE = f"at 1/{1 / SLOW:.0f} of the learning rate"

EVALUATION, LOSSES, UPDATE = "evaluation before training", "whole epochs", "update by whole epochs"
TAIL_LOSSES, TAIL_UPDATE = "the last two batches", "update by the last two batches"
SLOW_LOSSES, SLOW_UPDATE = (f"{what} {AT_SLOW_RATE}" for what in (LOSSES, UPDATE))
"""What of whole epochs is compared."""

LEAST_ALLOWED = {
    EVALUATION: 1e-4,
    LOSSES: 5e-3,
    TAIL_LOSSES: 1e-4,
    TAIL_UPDATE: 5e-3,
    UPDATE: 5e-3,
    SLOW_LOSSES: 1e-4,
    SLOW_UPDATE: 5e-3,
}
"""Two trainers may part this far in any case.

float32 rounds by 6e-8, but now and then it pushes a hidden unit over ReLU's kink. In one of 40 certificates of the
default experiment's recipe that happened before it did in both copies: losses were 4e-4 apart. At the small rate a kink
moves no loss, and 8e-4 of an update.
"""


@dataclass(frozen=True)
class Course:
    """One training. losses: of each step, float64. moved: the weights' change. logits: of the initial weights."""

    losses: np.ndarray
    tail_losses: np.ndarray
    moved: Sketches
    tail_moved: Sketches
    logits: Sketches

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays by name, as `of_arrays` takes them."""
        found: dict[str, np.ndarray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            found |= value.arrays(f"{field.name}/") if isinstance(value, Sketches) else {field.name: value}
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Back from `arrays`."""
        sketched = ("moved", "tail_moved", "logits")
        found: dict[str, Any] = {name: Sketches.of_arrays(arrays, f"{name}/") for name in sketched}
        return cls(losses=arrays["losses"], tail_losses=arrays["tail_losses"], **found)


@dataclass(frozen=True)
class Courses:
    """A training, and that of the perturbed copy."""

    own: Course
    copy: Course


@dataclass(frozen=True)
class EpochTrace:
    """What a trainer showed. full: at the recipe's learning rate. slow: at a thousandth of it; None of short epochs.

    steps: of each epoch. wrong_counts: see `EpochFeed.wrong_counts`; of the first epoch where there is something.
    """

    full: Courses
    slow: Courses | None
    steps: tuple[int, ...]
    wrong_counts: str | None


@dataclass(frozen=True)
class Apart:
    """How far two trainers are apart in something, and how far they may be. step: of the losses, from 1; else None."""

    what: str
    difference: float
    allowed: float
    step: int | None = None
    layer: str | None = None

    @property
    def excess(self) -> float:
        """The difference, by what is allowed."""
        return self.difference / self.allowed


def compare_epochs(first: EpochTrace, second: EpochTrace, parameters: Sequence[str]) -> list[Apart]:
    """How far two trainers are apart, in the order of the computation: of the losses the step of the largest excess.

    A difference of losses is relative; of weights, of how far they moved. Steps count until the losses of both are no
    longer finite. parameters: the arrays that the optimizer changes. At the small rate they alone are compared: beside
    running statistics they hardly move.
    """
    one, other = first.full, second.full
    apart = [_sketches_apart(EVALUATION, one, other, "logits"), _losses_apart(LOSSES, one, other, "losses")]
    if len(one.own.tail_losses):
        apart.append(_losses_apart(TAIL_LOSSES, one, other, "tail_losses"))
        apart.append(_sketches_apart(TAIL_UPDATE, one, other, "tail_moved"))
    if np.isfinite(one.own.losses).all() or np.isfinite(other.own.losses).all():
        apart.append(_sketches_apart(UPDATE, one, other, "moved"))
    if first.slow and second.slow:
        apart.append(_losses_apart(SLOW_LOSSES, first.slow, second.slow, "losses"))
        apart.append(_sketches_apart(SLOW_UPDATE, first.slow, second.slow, "moved", parameters))
    return apart


def _losses_apart(what: str, one: Courses, other: Courses, key: str) -> Apart:
    losses, others = getattr(one.own, key), getattr(other.own, key)
    steps = _finite_steps(losses, others)
    between = _differences(losses, others)[:steps]
    chaos = np.minimum(*(_chaos(courses)[:steps] for courses in (one, other)))
    allowed = np.maximum(LEAST_ALLOWED[what], ALLOWED * chaos)
    if not steps:
        return Apart(what, 0.0, LEAST_ALLOWED[what], 1)
    # The first one that is too large says where; where none is, the one with the largest share of what is allowed.
    excess = between / allowed
    step = int(np.argmax(excess > 1)) if (excess > 1).any() else int(np.argmax(excess))
    return Apart(what, float(between[step]), float(allowed[step]), step + 1)


def _chaos(courses: Courses) -> np.ndarray:
    """How far a trainer has parted from its perturbed copy by each step, and AHEAD more; of whole epochs.

    The last two batches are trained from the initial weights too: their first steps are as sensitive.
    """
    parted = np.maximum.accumulate(_differences(courses.own.losses, courses.copy.losses))
    return parted[np.minimum(np.arange(len(parted)) + AHEAD, len(parted) - 1)]


def _differences(losses: np.ndarray, others: np.ndarray) -> np.ndarray:
    if len(losses) != len(others):
        return np.full(max(len(losses), len(others)), np.inf)
    return np.array([scalar_difference(a, b) for a, b in zip(losses, others, strict=True)])


def _finite_steps(losses: np.ndarray, others: np.ndarray) -> int:
    """Steps before the first one whose loss is finite in neither."""
    if len(losses) != len(others):
        return max(len(losses), len(others))
    ended = ~np.isfinite(losses) & ~np.isfinite(others)
    return int(np.argmax(ended)) if ended.any() else len(losses)


def _sketches_apart(what: str, one: Courses, other: Courses, key: str, names: Sequence[str] = ()) -> Apart:
    """Of these arrays together, or of all; the layer is named whose own difference is the largest."""
    own, others = getattr(one.own, key), getattr(other.own, key)
    names = names or list(own.shapes)
    chaos = min(getattr(courses.own, key).difference(getattr(courses.copy, key), names) for courses in (one, other))
    furthest = max(names, key=lambda name: own.difference(others, [name]))
    layer = None if key == "logits" else furthest.rpartition(".")[0]
    return Apart(what, own.difference(others, names), max(LEAST_ALLOWED[what], ALLOWED * chaos), layer=layer)
