"""Checks each epoch of two trainers' runs: do the losses of their steps and evaluations show the same training?

Two runs of one repeat start from the same weights and take the same batches. Rounding, and with dropout each
framework's own masks, drive them apart step by step; what another training changes comes at once, or in all repeats
alike. Four checks follow from that, each for what the others can't see:

- Jump. The loss of a step follows from the weights after the step before, so it can't differ much more.
- Evaluation. So does a test loss, which can't differ much more than the losses of the steps around it.
- Order. A batch is as hard for one framework as for another, so the ranks of an epoch's losses correlate, long after
  the losses themselves have come apart. Trained in another order, they do not.
- Level. Rounding makes the losses of an epoch larger in some repeats and smaller in others. Another learning rate makes
  them larger, or smaller, in all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.recipes.outputs import relative_differences

LEAST_STEPS = 8
"""Epochs of fewer steps are not checked for order and level."""

CERTIFIED_STEPS = 10
"""Jumps in these first steps are left to the certificate. A difference of 1e-7 that grows as much as is allowed in each
step has come apart by then: ResNet-50 in batches of 8."""

LEAST_RUNS = 4
"""In fewer pairs of runs, what rounding does to one of them by chance is seen in most of them: it crosses a kink of
ReLU in about one of a hundred steps, which is a jump, too. Limits are then higher."""

JUMPS_ALLOWED = {1: 300.0, 2: 30.0, 3: 30.0, LEAST_RUNS: 8.0}
"""Factor by which the difference of the losses may grow from some steps to the next one, in most pairs of runs, by the
number of pairs. Correct trainings reached 3.9 in most of 4 to 8 pairs, 10 of 3, 3 of 2, and 63 in a single one (or 210,
where what jumped was SMALL); errors from step 40 on 11 to 4e4, and 800 to 2e4 in a single pair (networks of one and two
hidden layers on the digits, 12 to 90 steps an epoch)."""

EVALUATIONS_ALLOWED = {1: 5.0, 2: 5.0, 3: 5.0, LEAST_RUNS: 3.0}
"""Factor by which the difference of the test losses may exceed that of the losses of the steps around the evaluation.
Correct trainings reached .9 in most of 4 to 8 pairs and 1.6 in a single one; averaged weights, and an evaluation that
is an epoch late, 30 to 8e5 without dropout."""

SMALL = 0.005
"""Smaller differences are no jump in fewer than LEAST_RUNS pairs: a kink of ReLU makes one of 2e-4 out of none."""

LAST_STEPS, STEPS_AROUND = 4, 8
"""Number of steps before a step, and before and after an evaluation, with whose largest difference it is compared."""

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

LEVEL_ALLOWED, LEVEL_P_VALUE = 0.01, 1e-4
"""Mean difference of the losses of an epoch that is always allowed; p-value above which a larger one is, too."""

SPREAD, LEAST_SPREAD, SPREAD_RUNS = 2.0, 0.3, 8
"""Expected standard deviation of the mean difference between pairs of runs: the first in standard errors of that mean
over the steps, or the second in standard deviations of the steps, if that is more; and the number of pairs that it
counts as. Correct trainings had 1.4 standard errors on average, 3 to 4 at most, and .1 to .6 standard deviations. Among
500 groups of 1 to 8 pairs, with dropout and without, the least p-value was 3e-3."""

LASTING = "lasting level"
"""The check of the level of many epochs, which tells less exactly than the others where the difference begins."""


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


Evaluations = Sequence[tuple[int, np.ndarray]]
"""Of each evaluation of the test split the number of steps before it, and its losses, (2 trainers, pairs of runs)."""


def first_difference(epochs: Sequence[np.ndarray], evaluations: Evaluations = ()) -> Finding | None:
    """Return what shows another training in the first epoch that does; None if none does.

    epochs: of each epoch the losses of its steps, (2 trainers, pairs of runs, steps).
    """
    found = (one for one in findings(epochs, evaluations) if one.excess > 1)
    return min(found, default=None, key=lambda one: (one.check == LASTING, one.epoch))


def findings(epochs: Sequence[np.ndarray], evaluations: Evaluations = ()) -> Iterator[Finding]:
    """Yield what each check found in each epoch that it can judge; that of jumps yields its largest of each epoch."""
    if epochs:
        yield from _jumps(epochs)
        yield from _other_evaluations(epochs, evaluations)
        if epochs[0].shape[-1] >= LEAST_STEPS:
            yield from _other_orders(epochs)
            yield from _other_levels(epochs, evaluations)


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


def _jumps(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    differences = np.abs(relative_differences(*np.concatenate(epochs, axis=-1)))
    runs, steps = differences.shape
    if steps == 1:  # of a single epoch of one full batch
        return
    before = np.stack([differences[:, max(step - LAST_STEPS, 0) : step].max(axis=1) for step in range(1, steps)], 1)
    ratios = _in_most(differences[:, 1:] / np.maximum(before, ROUNDING))
    excess = ratios / JUMPS_ALLOWED[min(runs, LEAST_RUNS)]
    excess[: CERTIFIED_STEPS - 1] = 0
    if runs < LEAST_RUNS:
        excess[_in_most(differences[:, 1:]) < SMALL] = 0
    of_epoch = epochs[0].shape[-1]
    for epoch in range(1, len(epochs) + 1):
        in_epoch = excess[max((epoch - 1) * of_epoch - 1, 0) : epoch * of_epoch - 1]
        if len(in_epoch):
            step = epoch * of_epoch - len(in_epoch) + int(np.argmax(np.minimum(in_epoch, 1 + 1e-9)))  # the first jump
            medians = [float(np.median(values[:, step - 1])) for values in (differences[:, 1:], before)]
            words = f"the loss of step {step + 1} differs by {medians[0]:.1e}, those before it by {medians[1]:.1e}"
            yield Finding("jump", epoch, float(excess[step - 1]), words)


def _other_evaluations(epochs: Sequence[np.ndarray], evaluations: Evaluations) -> Iterator[Finding]:
    steps = np.abs(relative_differences(*np.concatenate(epochs, axis=-1)))
    for step, losses in evaluations:
        around = steps[:, max(step - STEPS_AROUND, 0) : step + STEPS_AROUND].max(axis=1)
        differences = np.abs(relative_differences(*losses))
        runs, ratios = len(differences), differences / np.maximum(around, ROUNDING)
        excess = float(_in_most(ratios)) / EVALUATIONS_ALLOWED[min(runs, LEAST_RUNS)]
        if runs < LEAST_RUNS and _in_most(differences) < SMALL:
            excess = 0.0
        medians = f"{np.median(differences):.1e}, the losses of the steps around it by {np.median(around):.1e}"
        words = f"the test loss after step {step} differs by {medians}"
        yield Finding("evaluation", max(-(-step // epochs[0].shape[-1]), 1), excess, words)


def _in_most(values: np.ndarray) -> np.ndarray:
    """Return the value that most pairs of runs reach, (...), of values (pairs, ...)."""
    reached: np.ndarray = np.quantile(values, 0.5, axis=0, method="lower")
    return reached


def _other_orders(epochs: Sequence[np.ndarray]) -> Iterator[Finding]:
    found, error = correlations(epochs)
    for place in range(2, len(epochs)):
        is_close_to_none = found[place] < CLOSE_TO_NONE + 3 * error
        evidence = _evidence(found, place, found[place:], error) if is_close_to_none else -np.inf
        before, after = np.tanh(found[place - 1 : place + 1])
        words = f"the step losses correlate by {after:.2f}, in the epoch before by {before:.2f}"
        yield Finding("order", place + 1, evidence / EVIDENCE, words)


def _other_levels(epochs: Sequence[np.ndarray], evaluations: Evaluations) -> Iterator[Finding]:
    """Judge each epoch by itself, and all epochs from one on together: the epoch from which they differ most."""
    steps, of_epoch = relative_differences(*np.concatenate(epochs, axis=-1)), epochs[0].shape[-1]
    tests = [(step, relative_differences(*losses)[:, None]) for step, losses in evaluations if step]
    every_test = np.concatenate([losses for _, losses in tests], axis=1) if tests else steps[:, :0]
    pairs = f"in the mean of {steps.shape[0]} pairs of runs" if steps.shape[0] > 1 else "in the only pair of runs"
    found_in = []
    for start in range(0, steps.shape[1], of_epoch):
        for end, check, differ in (
            (start + of_epoch, "level", "differ"),
            (steps.shape[1], LASTING, "from it on differ"),
        ):
            within = [losses for step, losses in tests if start < step <= end]
            levels = [("step losses", _level(steps[:, start:end], steps[:, start:]))]
            levels += [("test losses", _level(np.concatenate(within, axis=1), every_test))] if within else []
            for what, (mean, excess) in levels:
                words = f"the {what} {differ} by {mean:+.1%} {pairs}"
                found_in.append(Finding(check, start // of_epoch + 1, excess, words))
    yield from (one for one in found_in if one.check != LASTING)
    yield max((one for one in found_in if one.check == LASTING), key=lambda one: one.excess)


def _level(differences: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """Return (mean difference, its excess) of losses. known: differences with their spread; both (pairs, losses).

    Few pairs of runs tell little of their spread, so what is known of it counts as some pairs more.
    """
    of_runs = differences.mean(axis=1)
    mean, runs = float(of_runs.mean()), len(of_runs)
    if abs(mean) <= LEVEL_ALLOWED or known.shape[1] < 2:
        return mean, 0.0
    spread = max(SPREAD / differences.shape[1] ** 0.5, LEAST_SPREAD)
    expected = spread**2 * known.var(axis=1, ddof=1).mean()
    freedom, squares = runs - 1 + SPREAD_RUNS, ((of_runs - mean) ** 2).sum()
    variance = max((squares + SPREAD_RUNS * expected) / freedom, squares / max(runs - 1, 1))
    error = max(float(variance / runs) ** 0.5, ROUNDING)
    return mean, float(stats().t.logsf(abs(mean) / error, freedom) / np.log(LEVEL_P_VALUE / 2))


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
    ranks = stats().rankdata(losses, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    ranks -= (ranks @ steps / (steps @ steps))[..., None] * steps
    covariances, scales = (ranks[0] * ranks[1]).sum(axis=-1), np.sqrt((ranks**2).sum(axis=-1).prod(axis=0))
    equal = np.ones(len(scales))  # of losses that are all the same
    correlations = np.divide(covariances, scales, out=equal, where=scales > 1e-9)
    return float(np.arctanh(np.clip(correlations, -LARGEST_CORRELATION, LARGEST_CORRELATION)).mean())


def stats() -> Any:
    """Return scipy.stats."""
    import scipy.stats  # imported here because it takes half a second

    return scipy.stats
