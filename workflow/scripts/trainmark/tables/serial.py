"""An interval of the median ratio that is also valid if ratios correlate from repeat to repeat.

The exact interval (statistics.median_interval) assumes independent values. At an autocorrelation of 0.5 it contains the
median in only 82 to 87 % of cases. Müller (2007, Journal of Econometrics 141(2), 1331-1352) and Lazarus, Lewis, Stock
and Watson (2018, Journal of Business & Economic Statistics 36(4), 541-559) estimate the long-run variance of a mean
from a few cosine-weighted averages of the series. These averages are nearly independent whatever the correlation, so
Student's t with as many degrees of freedom gives an interval. If ratios may correlate, the union of both intervals is
used.
"""

from collections.abc import Sequence

import numpy as np

from trainmark.tables.statistics import LEAST_FOR_INTERVAL, median_interval

LEAST_TO_TELL = 10
"""With fewer values than this, correlation cannot be detected; then both intervals are joined."""

FEW = 20
"""From this many values on, three cosines are used instead of two: in a longer series the third one is slow enough,
too, to be hardly affected by correlation."""

OUTLIER = 2.5
"""Values more than this many standard deviations from the median are clipped, because one slow run would dominate the
variance. The standard deviation is estimated from the median absolute deviation. LEAST_FOR_INTERVAL values are too few
for this estimate and are not clipped."""


def ratio_interval(ratios: Sequence[float]) -> tuple[tuple[float, float] | None, str]:
    """Compute a 95 % interval of the median ratio.

    ratios: in the order of their repeats.

    Returns ((low, high), note). The interval is None for fewer than LEAST_FOR_INTERVAL ratios. The note says why the
    interval is wider than the exact one of independent ratios; it is "" if the interval is the exact one.
    """
    exact = median_interval(ratios)
    if exact is None:
        return None, ""
    logs = _without_outliers(np.log(np.asarray(ratios, float)))
    correlation = _autocorrelation(logs)
    enough = len(logs) >= LEAST_TO_TELL
    if enough and correlation <= 0:
        return exact, ""
    low, high = _cosine_interval(logs, cosines=2 if len(logs) < FEW else 3)
    joined = min(exact[0], low), max(exact[1], high)
    if np.allclose(joined, exact, rtol=1e-9):
        return exact, ""
    why = (
        f"ratios of successive repeats correlate ({correlation:.2f})"
        if enough
        else f"{len(logs)} pairs are too few to tell whether ratios of successive repeats correlate"
        f" ({LEAST_TO_TELL} needed)"
    )
    return joined, f"interval widened: {why}"


def _without_outliers(logs: np.ndarray) -> np.ndarray:
    if len(logs) <= LEAST_FOR_INTERVAL:
        return logs
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))  # a normal distribution's standard deviation
    return np.asarray(np.clip(logs, middle - OUTLIER * spread, middle + OUTLIER * spread))


def _autocorrelation(values: np.ndarray) -> float:
    """The autocorrelation of successive values; 1 / n corrects the bias of the estimate for uncorrelated values."""
    deviations = values - values.mean()
    squares = float(deviations @ deviations)
    return float(deviations[1:] @ deviations[:-1]) / squares + 1 / len(values) if squares else 0.0


def _cosine_interval(logs: np.ndarray, cosines: int) -> tuple[float, float]:
    """The 95 % interval of the geometric mean, with the variance estimated from this many cosine-weighted averages."""
    from scipy.stats import t  # imported here because it takes half a second, see median_interval

    count = len(logs)
    angles = np.pi * np.outer(np.arange(1, cosines + 1), np.arange(count) + 0.5) / count
    averages = np.sqrt(2 / count) * np.cos(angles) @ logs
    half = t.ppf(0.975, cosines) * np.sqrt(np.mean(averages**2) / count)
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))
