"""An interval of the median ratio that also holds where ratios correlate from repeat to repeat.

The exact interval (statistics.median_interval) supposes independent values. At an autocorrelation of 0.5 it holds in 82
to 87 % of cases. Müller (2007, Journal of Econometrics 141(2), 1331-1352) and Lazarus, Lewis, Stock and Watson (2018,
Journal of Business & Economic Statistics 36(4), 541-559) estimate the long-run variance of a mean from a few cosine
weighted averages of the series, which are nearly independent whatever the correlation: Student's t with as many degrees
of freedom gives an interval. Where ratios may correlate, ours is the union of both.
"""

from collections.abc import Sequence

import numpy as np

from trainmark.tables.statistics import LEAST_FOR_INTERVAL, median_interval

LEAST_TO_TELL = 10
"""Fewer values can't tell whether they correlate: both intervals are joined then."""

FEW = 20
"""From so many values on a third cosine is taken: each adds slower changes that correlation hardly touches."""

OUTLIER = 2.5
"""Values this many standard deviations off the median, by the median absolute deviation, are drawn in: one slow run
would make the variance its own. Not of the least count, which bears no such estimate."""


def ratio_interval(ratios: Sequence[float]) -> tuple[tuple[float, float] | None, str]:
    """(low and high, a note) for the median of ratios in the order of their repeats, at 95 %.

    None for too few. The note says why the interval is wider than the exact one of independent ratios; "" where it is
    not.
    """
    exact = median_interval(ratios)
    if exact is None:
        return None, ""
    logs = _without_outliers(np.log(np.asarray(ratios, float)))
    correlation = _autocorrelation(logs)
    told = len(logs) >= LEAST_TO_TELL
    if told and correlation <= 0:
        return exact, ""
    low, high = _cosine_interval(logs, cosines=2 if len(logs) < FEW else 3)
    joined = min(exact[0], low), max(exact[1], high)
    if np.allclose(joined, exact, rtol=1e-9):
        return exact, ""
    why = (
        f"ratios of successive repeats correlate ({correlation:.2f})"
        if told
        else f"{len(logs)} pairs can't tell whether ratios of successive repeats correlate ({LEAST_TO_TELL} can)"
    )
    return joined, f"interval widened, since {why}"


def _without_outliers(logs: np.ndarray) -> np.ndarray:
    if len(logs) <= LEAST_FOR_INTERVAL:
        return logs
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))  # a normal distribution's standard deviation
    return np.asarray(np.clip(logs, middle - OUTLIER * spread, middle + OUTLIER * spread))


def _autocorrelation(values: np.ndarray) -> float:
    """Of successive values; 1 / n is added, by which it is too small on average where there is none."""
    off = values - values.mean()
    squares = float(off @ off)
    return float(off[1:] @ off[:-1]) / squares + 1 / len(values) if squares else 0.0


def _cosine_interval(logs: np.ndarray, cosines: int) -> tuple[float, float]:
    """The exponential of the mean of the logs, plus and minus its error by so many cosines."""
    from scipy.stats import t  # half a second, as in statistics.median_interval

    count = len(logs)
    angles = np.pi * np.outer(np.arange(1, cosines + 1), np.arange(count) + 0.5) / count
    averages = np.sqrt(2 / count) * np.cos(angles) @ logs
    half = t.ppf(0.975, cosines) * np.sqrt(np.mean(averages**2) / count)
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))
