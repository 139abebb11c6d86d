"""Compares two trainers that both trained whole epochs at a small fraction of the learning rate (whole_epochs).

At the recipe's rate training amplifies rounding without limit, and an error could hide behind that: after 600 steps of
Adam on MNIST, two correct trainings differ by a third of a loss. At the small rate only deep networks with batch
normalisation amplify it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.parity.sketches import Sketches, scalar_difference

SLOW_RATE = 1e-3
"""Factor on the learning rate at which the epochs are trained."""

EVALUATION, LOSSES, UPDATE = "evaluation before training", "whole epochs", "weight update over whole epochs"
"""The quantities that are compared."""

ALLOWED = {EVALUATION: 1e-4, LOSSES: 1e-4, UPDATE: 5e-3}
"""The relative difference of each quantity that is always allowed.

float32 rounds by 6e-8, but sometimes rounding pushes a hidden unit across the kink of ReLU: that changes no loss, and
an update by 8e-4 in the default experiment's recipe.
"""


@dataclass(frozen=True)
class EpochTrace:
    """What one trainer showed while it trained whole epochs.

    losses: loss of each step, float64.
    weight_change: final minus initial weights.
    logits: logits of the test samples before training; empty if there are none.
    wrong_counts: phrase about the first epoch with wrong counts (see `EpochFeed.wrong_counts`); None if all are right.
    """

    losses: np.ndarray
    weight_change: Sketches
    logits: Sketches
    wrong_counts: str | None


@dataclass(frozen=True)
class EpochDifference:
    """The difference of two trainers in one quantity, a key of ALLOWED. Losses have a step, updates a layer."""

    what: str
    difference: float
    allowed: float
    step: int | None = None
    layer: str | None = None

    @property
    def excess(self) -> float:
        """The difference divided by the allowed one."""
        return self.difference / self.allowed


def compare_epochs(
    first: EpochTrace, second: EpochTrace, parameters: Sequence[str], rounding: float = 0.0, amplifies: bool = False
) -> list[EpochDifference]:
    """Return the differences between two trainers, in the order of the computation.

    Losses are compared relative to their size, weights relative to how far they moved. Of the losses one step is given:
    the first that exceeds its limit, otherwise the one with the largest difference.

    parameters: names of the arrays that the optimizer changes. Others, the running statistics, move so much further
        that they would hide them.
    rounding: how much float32 may change the gradients of both, which is allowed for updates too.
    amplifies: whether the training amplifies rounding from step to step. Then only the first loss is compared.
    """
    found = []
    if first.logits.shapes:
        difference = first.logits.difference(second.logits, list(first.logits.shapes))
        found.append(EpochDifference(EVALUATION, difference, ALLOWED[EVALUATION]))
    losses = _loss_differences(first.losses, second.losses)[: 1 if amplifies else None]
    step = int(np.argmax(losses > ALLOWED[LOSSES])) if (losses > ALLOWED[LOSSES]).any() else int(np.argmax(losses))
    found.append(EpochDifference(LOSSES, float(losses[step]), ALLOWED[LOSSES], step + 1))
    if not amplifies and (np.isfinite(first.losses).all() or np.isfinite(second.losses).all()):
        changes = first.weight_change, second.weight_change
        furthest = max(parameters, key=lambda name: changes[0].difference(changes[1], [name]))
        difference, allowed = changes[0].difference(changes[1], parameters), max(ALLOWED[UPDATE], rounding)
        found.append(EpochDifference(UPDATE, difference, allowed, layer=furthest.rpartition(".")[0]))
    return found


def _loss_differences(losses: np.ndarray, other_losses: np.ndarray) -> np.ndarray:
    """Return the difference of each step; 0 where neither loss is finite, infinite if the numbers of steps differ."""
    if len(losses) != len(other_losses):
        return np.full(max(len(losses), len(other_losses)), np.inf)
    both = zip(losses, other_losses, strict=True)
    return np.array([scalar_difference(*pair) if np.isfinite(pair).any() else 0.0 for pair in both])
