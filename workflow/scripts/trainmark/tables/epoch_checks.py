"""Checks each epoch of two trainers' runs: do the losses of their steps show the same training?

Two runs of one repeat start from the same weights and take the same batches. Rounding, and with dropout each
framework's own masks, drive them apart step by step; what another training changes comes at once, or in all repeats
alike. Three checks follow from that, each for what the others can't see:

- Jump. The first loss of an epoch follows from the weights after the epoch before, so it can't differ much more.
- Order. A batch is as hard for one framework as for another, so the ranks of an epoch's losses correlate, long after
  the losses themselves have come apart. Trained in another order, they do not.
- Level. Rounding makes the losses of an epoch larger in some repeats and smaller in others. Another learning rate makes
  them larger, or smaller, in all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from trainmark.tables.paired import students_t

LEAST_STEPS = 8
"""Epochs of fewer steps are not checked."""

LEAST_RUNS = 4
"""Fewer pairs of runs are checked for their order alone. Rounding crosses a kink of ReLU in about one of a hundred
steps, which is a jump, too; by chance it does so in most of fewer runs at once."""

JUMP_ALLOWED = 10.0
"""Factor by which the difference of the losses may grow from the last steps of an epoch to the next step."""

LAST_STEPS = 4
"""Number of these last steps; of their differences the largest counts."""

ROUNDING = 1e-6
"""Relative difference of losses that float32 always allows."""

KEPT = 0.7
"""A correlation (Fisher's z) is expected to fall by this factor more than it fell in the epoch before."""

CLOSE_TO_NONE = 0.1
"""Correlations that are no larger than this, but for their error, are those of another order."""

LARGEST_CORRELATION = 0.999
"""Larger ones count as this."""

ERROR_RATIO = 1.25
"""Standard error of a correlation, divided by that of normally distributed values. The losses of an epoch are not."""

EVIDENCE = 7.0
"""Logarithm of the likelihood ratio that shows another order: e**7 is 1,100."""

LEVEL_ALLOWED, LEVEL_P_VALUE = 0.01, 1e-5
"""Mean difference of the losses of an epoch that is always allowed; p-value above which a larger one is, too."""


@dataclass(frozen=True)
class Finding:
    """What one check found in one epoch.

    excess: the value found divided by its limit; above 1 the trainings differ.
    words: the value in words.
    """

    check: str
    epoch: int
    excess: float
    words: str


def first_difference(epochs: Sequence[np.ndarray]) -> Finding | None:
    """Return what shows another training in the first epoch that does; None if none does.

    epochs: of each epoch the losses of its steps, (2 trainers, pairs of runs, steps).
    """
    return min((one for one in findings(epochs) if one.excess > 1), default=None, key=lambda one: one.epoch)


def findings(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    """Yield what each check found in each epoch that it can judge, from the second on."""
    if epochs and epochs[0].shape[-1] >= LEAST_STEPS:
        yield from _other_orders(epochs)
        if epochs[0].shape[1] >= LEAST_RUNS:
            yield from _jumps(epochs)
            yield from _other_levels(epochs)


def correlations(epochs: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return Fisher's z of the correlation of each epoch, the mean over the runs, and its standard error.

    It is Spearman's rank correlation, with what a straight line over the steps explains taken out: losses that fall
    within an epoch correlate in any order.
    """
    runs, steps = epochs[0].shape[1:]
    return np.array([_correlation(losses) for losses in epochs]), ERROR_RATIO / (runs * (steps - 4)) ** 0.5


def ordered_epochs(epochs: Sequence[np.ndarray]) -> int:
    """Return the number of first epochs in which another order of the batches would show.

    The first two are certified: only their correlations tell what is expected of the next ones.
    """
    if not epochs or epochs[0].shape[-1] < LEAST_STEPS:
        return min(len(epochs), 2)
    found, error = correlations(epochs)
    places = range(2, len(epochs))
    would_show = [_evidence(found, place, np.zeros(len(epochs) - place), error) > EVIDENCE for place in places]
    return min(len(epochs), 2 + [*would_show, False].index(False))


def relative_differences(losses: np.ndarray) -> np.ndarray:
    """Return (first - second) / the larger of both, for losses (2, ...); 0 for two zeros."""
    larger = losses.max(axis=0)
    differences: np.ndarray = np.divide(losses[0] - losses[1], larger, out=np.zeros_like(larger), where=larger > 0)
    return differences


def _jumps(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    for epoch, (before, now) in enumerate(pairwise(map(relative_differences, epochs)), start=2):
        last, first = np.abs(before[:, -LAST_STEPS:]).max(axis=1), np.abs(now[:, 0])
        ratio = float(np.quantile(first / np.maximum(last, ROUNDING), 0.5, method="lower"))
        medians = f"{np.median(first):.1e}, the last ones of the epoch before by {np.median(last):.1e}"
        yield Finding("jump", epoch, ratio / JUMP_ALLOWED, f"the first loss differs by {medians}")


def _other_orders(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    found, error = correlations(epochs)
    for place in range(2, len(epochs)):
        is_close_to_none = found[place] < CLOSE_TO_NONE + 3 * error
        evidence = _evidence(found, place, found[place:], error) if is_close_to_none else -np.inf
        before, after = np.tanh(found[place - 1 : place + 1])
        words = f"the step losses correlate by {after:.2f}, in the epoch before by {before:.2f}"
        yield Finding("order", place + 1, evidence / EVIDENCE, words)


def _other_levels(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    for epoch, differences in enumerate(map(relative_differences, epochs[1:]), start=2):
        of_runs = differences.mean(axis=1)
        mean, runs = float(of_runs.mean()), len(of_runs)
        if abs(mean) > LEVEL_ALLOWED:
            error = max(float(of_runs.std(ddof=1)) / runs**0.5, ROUNDING)
            excess = students_t().logsf(abs(mean) / error, runs - 1) / np.log(LEVEL_P_VALUE / 2)
            words = f"the step losses differ by {mean:+.1%} in the mean of {runs} pairs of runs"
            yield Finding("level", epoch, excess, words)


def _evidence(found: np.ndarray, place: int, judged: np.ndarray, error: float) -> float:
    """Return the logarithm of a likelihood ratio: no correlation from an epoch on, against those expected.

    found: correlations of all epochs. place: index of the epoch. judged: its correlation and those of the epochs after.
    """
    earlier, before = found[place - 2 : place]
    fall = KEPT * float(np.clip(before / earlier, 0, 1)) if earlier > 0 else 0.0
    expected = before * fall ** np.arange(1, len(judged) + 1)
    return float((expected * (expected - 2 * judged)).sum() / (2 * error**2))


def _correlation(losses: np.ndarray) -> float:
    steps = np.arange(losses.shape[-1]) - (losses.shape[-1] - 1) / 2
    ranks = np.array([pd.DataFrame(of_trainer).rank(axis=1) for of_trainer in losses])
    ranks -= ranks.mean(axis=-1, keepdims=True)
    ranks -= (ranks @ steps / (steps @ steps))[..., None] * steps
    covariances, scales = (ranks[0] * ranks[1]).sum(axis=-1), np.sqrt((ranks**2).sum(axis=-1).prod(axis=0))
    equal = np.ones(len(scales))  # of losses that are all the same
    correlations = np.divide(covariances, scales, out=equal, where=scales > 1e-9)
    return float(np.arctanh(np.clip(correlations, -LARGEST_CORRELATION, LARGEST_CORRELATION)).mean())
