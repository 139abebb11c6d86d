"""How far two trainers part in whole epochs that both trained as runs do (whole_epochs), and how far they may.

Rounding alone parts two trainers, and a training magnifies it. How far is measured: each trainer also trains a
perturbed copy. Two trainers that part by more than ALLOWED times as much as both part from their own copies do not
train the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from trainmark.parity.sketches import Sketches, scalar_difference

ALLOWED = 10.0
"""Two trainers may part this many times as far as both part from their copies.

Equal ones were seen to part .003 times as far in small networks, and 1.5 times in one that magnifies any difference.
"""

LEAST_ALLOWED = 1e-4
"""And this far in any case: float32 rounds by 6e-8, and a hidden unit beside ReLU's kink makes more of it."""

EVALUATION, LOSSES, UPDATE = "evaluation before training", "whole epochs", "update by whole epochs"
TAIL_LOSSES, TAIL_UPDATE = "the last two batches", "update by the last two batches"
"""What of whole epochs is compared."""


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
class EpochTrace:
    """What a trainer showed: its own training and that of its perturbed copy.

    steps: of each epoch. wrong_counts: see `EpochFeed.wrong_counts`; of the first epoch where there is something.
    """

    own: Course
    copy: Course
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


def compare_epochs(first: EpochTrace, second: EpochTrace) -> list[Apart]:
    """How far two trainers are apart, in the order of the computation: of the losses the step of the largest excess.

    A difference of losses is relative; of weights, of how far they moved. Steps count until the losses of both are no
    longer finite.
    """
    apart = [_sketches_apart(EVALUATION, first, second, "logits"), _losses_apart(LOSSES, first, second, "losses")]
    if len(first.own.tail_losses):
        apart.append(_losses_apart(TAIL_LOSSES, first, second, "tail_losses"))
        apart.append(_sketches_apart(TAIL_UPDATE, first, second, "tail_moved"))
    if np.isfinite(first.own.losses).all() or np.isfinite(second.own.losses).all():
        apart.append(_sketches_apart(UPDATE, first, second, "moved"))
    return apart


def _losses_apart(what: str, first: EpochTrace, second: EpochTrace, key: str) -> Apart:
    losses, others = getattr(first.own, key), getattr(second.own, key)
    steps = _finite_steps(losses, others)
    between = _differences(losses, others)[:steps]
    chaos = np.minimum(*(_chaos(trace, key)[:steps] for trace in (first, second)))
    allowed = np.maximum(LEAST_ALLOWED, ALLOWED * chaos)
    if not steps:
        return Apart(what, 0.0, LEAST_ALLOWED, 1)
    # The first one that is too large says where; where none is, the one with the largest share of what is allowed.
    excess = between / allowed
    step = int(np.argmax(excess > 1)) if (excess > 1).any() else int(np.argmax(excess))
    return Apart(what, float(between[step]), float(allowed[step]), step + 1)


def _chaos(trace: EpochTrace, key: str) -> np.ndarray:
    """How far a trainer has parted from its perturbed copy by each step."""
    return np.maximum.accumulate(_differences(getattr(trace.own, key), getattr(trace.copy, key)))


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


def _sketches_apart(what: str, first: EpochTrace, second: EpochTrace, key: str) -> Apart:
    """Of all arrays together; the layer is named whose own difference is the largest."""
    own, other = getattr(first.own, key), getattr(second.own, key)
    names = list(own.shapes)
    chaos = min(getattr(trace.own, key).difference(getattr(trace.copy, key), names) for trace in (first, second))
    furthest = max(names, key=lambda name: own.difference(other, [name]))
    layer = None if key == "logits" else furthest.rpartition(".")[0]
    return Apart(what, own.difference(other, names), max(LEAST_ALLOWED, ALLOWED * chaos), layer=layer)
