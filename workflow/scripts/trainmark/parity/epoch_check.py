"""Compares two trainers that both trained whole epochs as runs do (whole_epochs).

Rounding alone makes two trainers differ, and training amplifies the difference. How much is measured: each trainer also
trains a perturbed copy of itself. If two trainers differ by more than ALLOWED_RATIO times the difference that both have
from their own copies, they do not train the same. A long training can amplify rounding without limit, so that an error
would be hidden; at a small fraction of the learning rate it amplifies nothing. Long epochs are therefore trained whole
at such a rate, and at the recipe's rate only batches spread over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.parity.sketches import Sketches, scalar_difference

ALLOWED_RATIO = 10.0
"""Two trainers may differ by this many times the difference that both have from their perturbed copies.

Equal trainers were observed to differ by .003 times as much in small networks, and by 1.5 times as much in a network
that amplifies every difference.
"""

LOOKAHEAD_STEPS = 4
"""A step's limit also takes into account the differences of the copies in this many following steps.

A copy shows how sensitive a step is, but two losses may be equal by chance. In ResNet-50 with batches of 8, Chainer and
Keras on JAX differed by 3e-2 in the second step, and Chainer and its copy by 2e-3.
"""

SLOW_RATE = 1e-3
"""Factor on the learning rate at which long epochs are trained whole.

In 600 steps on MNIST, Adam amplifies rounding to a third of a loss; at this rate to 3e-7.
"""

AT_SLOW_RATE = f"at 1/{1 / SLOW_RATE:.0f} of the learning rate"

EVALUATION, LOSSES, UPDATE = "evaluation before training", "whole epochs", "weight update over whole epochs"
SPREAD_LOSSES, SPREAD_UPDATE = "batches spread over the epochs", "weight update over batches spread over the epochs"
TAIL_LOSSES, TAIL_UPDATE = "the last two batches", "weight update over the last two batches"
SLOW_LOSSES, SLOW_UPDATE = (f"{what} {AT_SLOW_RATE}" for what in (LOSSES, UPDATE))
"""The quantities that are compared."""

ALWAYS_ALLOWED = {
    EVALUATION: 1e-4,
    LOSSES: 5e-3,
    TAIL_LOSSES: 1e-4,
    TAIL_UPDATE: 5e-3,
    UPDATE: 5e-3,
    SPREAD_LOSSES: 5e-3,
    SPREAD_UPDATE: 5e-3,
    SLOW_LOSSES: 1e-4,
    SLOW_UPDATE: 5e-3,
}
"""Differences that are allowed whatever the copies show.

float32 rounds by 6e-8, but sometimes rounding pushes a hidden unit across the kink of ReLU. In one of 40 certificates
of the default experiment's recipe this happened before it had happened in both copies; the losses differed by 4e-4. At
the small rate a kink changes no loss, and an update by 8e-4.
"""


@dataclass(frozen=True)
class TrainingResult:
    """The result of training the epochs once.

    losses: loss of each step, float64.
    tail_losses: loss of each step of the last two batches, trained from the initial weights; may be empty.
    weight_change: final minus initial weights.
    tail_weight_change: the same after the last two batches.
    logits: logits of the test samples before training.
    """

    losses: np.ndarray
    tail_losses: np.ndarray
    weight_change: Sketches
    tail_weight_change: Sketches
    logits: Sketches


@dataclass(frozen=True)
class ResultWithCopy:
    """The result of a training and that of its perturbed copy.

    whole: result of the whole epochs, if the other two are of batches spread over them.
    """

    own: TrainingResult
    copy: TrainingResult
    whole: TrainingResult | None = None

    @property
    def compared(self) -> TrainingResult:
        """The result that is compared with another trainer's."""
        return self.whole or self.own


@dataclass(frozen=True)
class EpochTrace:
    """What one trainer showed while it trained whole epochs.

    full: results at the recipe's learning rate; of long epochs only batches spread over them.
    slow: results of long epochs at SLOW_RATE times that rate; None if they are short.
    steps: number of steps of each epoch.
    wrong_counts: phrase about the first epoch with wrong counts (see `EpochFeed.wrong_counts`); None if all are right.
    """

    full: ResultWithCopy
    slow: ResultWithCopy | None
    steps: tuple[int, ...]
    wrong_counts: str | None


@dataclass(frozen=True)
class EpochDifference:
    """The difference of two trainers in one quantity, a key of ALWAYS_ALLOWED. Losses have a step, updates a layer."""

    what: str
    difference: float
    allowed: float
    step: int | None = None
    layer: str | None = None

    @property
    def excess(self) -> float:
        """The difference divided by the allowed one."""
        return self.difference / self.allowed


def compare_epochs(first: EpochTrace, second: EpochTrace, parameters: Sequence[str]) -> list[EpochDifference]:
    """Return the differences between two trainers, in the order of the computation.

    Losses are compared relative to their size, weights relative to how far they moved. Of the losses one step is given:
    the first that exceeds its limit, otherwise the one nearest to its limit. Steps are compared until the losses of
    both trainers are not finite.

    parameters: names of the arrays that the optimizer changes. At the small learning rate only they are compared,
        because they hardly move there and running statistics would dominate.
    """
    one, other = first.full, second.full
    losses, update = (SPREAD_LOSSES, SPREAD_UPDATE) if first.slow else (LOSSES, UPDATE)
    differences = [_compare_sketches(EVALUATION, one, other, "logits"), _compare_losses(losses, one, other, "losses")]
    if len(one.own.tail_losses):
        differences.append(_compare_losses(TAIL_LOSSES, one, other, "tail_losses"))
        differences.append(_compare_sketches(TAIL_UPDATE, one, other, "tail_weight_change"))
    if np.isfinite(one.own.losses).all() or np.isfinite(other.own.losses).all():
        differences.append(_compare_sketches(update, one, other, "weight_change"))
    if first.slow and second.slow:
        differences.append(_compare_losses(SLOW_LOSSES, first.slow, second.slow, "losses"))
        differences.append(_compare_sketches(SLOW_UPDATE, first.slow, second.slow, "weight_change", parameters))
    return differences


def _compare_losses(what: str, one: ResultWithCopy, other: ResultWithCopy, key: str) -> EpochDifference:
    losses, other_losses = getattr(one.compared, key), getattr(other.compared, key)
    steps = max(len(losses), len(other_losses))
    if len(losses) == len(other_losses):  # compared are the steps before the first one in which neither loss is finite
        both_diverged = ~np.isfinite(losses) & ~np.isfinite(other_losses)
        steps = int(np.argmax(both_diverged)) if both_diverged.any() else steps
    differences = _loss_differences(losses, other_losses)[:steps]
    from_copy = np.minimum(*(_differences_from_copy(result, steps) for result in (one, other)))
    allowed = np.maximum(ALWAYS_ALLOWED[what], ALLOWED_RATIO * from_copy)
    if not steps:
        return EpochDifference(what, 0.0, ALWAYS_ALLOWED[what], 1)
    excess = differences / allowed
    step = int(np.argmax(excess > 1)) if (excess > 1).any() else int(np.argmax(excess))
    return EpochDifference(what, float(differences[step]), float(allowed[step]), step + 1)


def _differences_from_copy(result: ResultWithCopy, steps: int) -> np.ndarray:
    """Return by step the largest difference from the perturbed copy up to LOOKAHEAD_STEPS later.

    The copy's losses serve for whole epochs and for the last two batches too: those are also trained from the initial
    weights, so after as many steps they are as sensitive. Steps that the copy did not take have its largest difference.
    """
    largest = np.maximum.accumulate(_loss_differences(result.own.losses, result.copy.losses))
    return largest[np.minimum(np.arange(steps) + LOOKAHEAD_STEPS, len(largest) - 1)]


def _loss_differences(losses: np.ndarray, other_losses: np.ndarray) -> np.ndarray:
    if len(losses) != len(other_losses):
        return np.full(max(len(losses), len(other_losses)), np.inf)
    return np.array([scalar_difference(a, b) for a, b in zip(losses, other_losses, strict=True)])


def _compare_sketches(
    what: str, one: ResultWithCopy, other: ResultWithCopy, key: str, names: Sequence[str] = ()
) -> EpochDifference:
    """Compare the named arrays together, or all of them. The layer of the array that differs most is named."""
    values, other_values = getattr(one.compared, key), getattr(other.compared, key)
    names = names or list(values.shapes)
    from_copy = min(getattr(result.own, key).difference(getattr(result.copy, key), names) for result in (one, other))
    furthest = max(names, key=lambda name: values.difference(other_values, [name]))
    layer = None if key == "logits" else furthest.rpartition(".")[0]
    allowed = max(ALWAYS_ALLOWED[what], ALLOWED_RATIO * from_copy)
    return EpochDifference(what, values.difference(other_values, names), allowed, layer=layer)
