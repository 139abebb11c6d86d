"""How much slower is one trainer than another, from the ratios of their times in pairs of runs?

Everything is computed from the logarithms of the ratios. The estimate is the median of the means of any two of them and
of themselves (Hodges and Lehmann 1963, Annals of Mathematical Statistics 34(2), 598-611): a few slow runs hardly move
it. An interval and a p-value come from one of two tests of this estimate:

- Wilcoxon's signed-rank test (1945, Biometrics Bulletin 1(6), 80-83) is exact for independent, symmetric values. The
  ratios of two equally fast trainers are symmetric because their order within each repeat is drawn at random; so they
  are on a machine that slows down or has slow moments.
- If the ratios correlate from repeat to repeat, this test is wrong: at an autocorrelation of 0.5 its 95 % interval
  contains the true value in 73 to 86 % of cases. Müller (2007, Journal of Econometrics 141(2), 1331-1352) and Lazarus,
  Lewis, Stock and Watson (2018, Journal of Business & Economic Statistics 36(4), 541-559) estimate the variance of a
  mean from a few cosine-weighted averages of the series. These are nearly independent whatever the correlation, so
  Student's t applies with as many degrees of freedom. This is used if ratios correlate, and with few ratios, for which
  that can't be told.

Of ratios that are known within bounds, the estimate lies between those of all lower and of all upper ends. The interval
reaches from below the former to above the latter, by as much as that of the middles reaches below and above theirs
(Imbens and Manski 2004, Econometrica 72(6), 1845-1857, on intervals for parameters that are known within bounds). The
middles vary at least as much as the true ratios if what moves them within their bounds is independent of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t distribution: its values, and the inverse

from trainmark.plan.matrix import LEAST_PAIRS

LEVEL = 0.05
"""Level of the verdicts; intervals are those of 1 - LEVEL."""

POWER = 0.8
"""Probability with which a `detectable` ratio is found."""

LEAST_TO_TELL = 10
"""Correlation can't be told from fewer values than this."""

LEAST_TO_CLIP = 8
"""Fewer values are too few to tell which of them are outliers."""

OUTLIER = 4.0
"""Values more than this many standard deviations from the median are clipped before a variance or a correlation is
estimated, which one slow run would dominate. The standard deviation is that of the median absolute deviation."""

COSINES = 3
"""Number of cosine-weighted averages. More of them make intervals narrower, fewer follow correlation better: with 2, 3
and 4, a 95 % interval is 7.6, 5.9 and 5.2 standard errors wide in the mean, and that of 8 ratios with an
autocorrelation of 0.5 holds in 91, 88 and 84 % of cases."""


@dataclass(frozen=True)
class PairedRatios:
    """What the ratios of at least LEAST_PAIRS pairs of runs show.

    logs: their logarithms, by repeat. correlation: how successive ones correlate; None if they are too few to tell.
    """

    logs: np.ndarray
    correlation: float | None

    @property
    def note(self) -> str:
        """That the ratios correlate, which widens their interval; "" if they do not, or if that can't be told."""
        if not self.correlation or self.correlation <= 0:
            return ""
        return f"ratios of successive repeats correlate ({self.correlation:.2f}), which widens the interval"

    @property
    def value(self) -> float:
        """The estimate of the ratio."""
        return float(np.exp(_centre(self.logs)))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval of the ratio that is wrong in at most this share of cases; (0, infinity) for too few pairs."""
        if self._is_ranked:
            means, tail = _means_of_two(self.logs), _rank_distribution(len(self.logs))
            left_out = int(np.searchsorted(tail, level / 2, side="right"))
            low, high = (means[left_out - 1], means[-left_out]) if left_out else (-np.inf, np.inf)
        else:
            half = stdtrit(COSINES, 1 - level / 2) * self._standard_error
            low, high = _centre(self.logs) - half, _centre(self.logs) + half
        return float(np.exp(low)), float(np.exp(high))

    @property
    def p_value(self) -> float:
        """The largest level at which the interval contains 1, from both sides."""
        if self._is_ranked:
            means = _means_of_two(self.logs)
            rank_sum = min((means >= 0).sum(), (means <= 0).sum())
            return float(min(1, 2 * _rank_distribution(len(self.logs))[rank_sum]))
        if not self._standard_error:
            return 0.0 if _centre(self.logs) else 1.0
        return float(2 * stdtr(COSINES, -abs(_centre(self.logs)) / self._standard_error))

    def detectable(self, level: float = LEVEL) -> float:
        """The smallest ratio above 1 that as many pairs with this spread show at a level, in POWER of cases."""
        low, high = self.interval(level)
        freedom = np.inf if self._is_ranked else COSINES
        half = (np.log(high) - np.log(low)) / 2 if low else np.inf
        return float(np.exp(half * (1 + stdtrit(freedom, POWER) / stdtrit(freedom, 1 - level / 2))))

    @property
    def _is_ranked(self) -> bool:
        return self.correlation is not None and self.correlation <= 0

    @property
    def _standard_error(self) -> float:
        return standard_error(self.logs)


@dataclass(frozen=True)
class BoundedRatios:
    """What ratios that are known within bounds show: the middles, and these moved so far that their estimate is that of
    the lower and of the upper ends.
    """

    lower: PairedRatios
    upper: PairedRatios
    middle: PairedRatios

    @property
    def note(self) -> str:
        """See `PairedRatios.note`."""
        return self.middle.note

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval that is wrong in at most this share of cases, wherever ratios lie within their bounds."""
        return self.lower.interval(level)[0], self.upper.interval(level)[1]

    @property
    def p_value(self) -> float:
        """The largest level at which this interval contains 1."""
        if _centre(self.lower.logs) > 0:
            return self.lower.p_value
        return self.upper.p_value if _centre(self.upper.logs) < 0 else 1.0

    def detectable(self, level: float = LEVEL) -> float:
        """The smallest ratio above 1 that would show without bounds: as many pairs with the spread of the middles."""
        return self.middle.detectable(level)


def paired_ratios(
    ratios: Sequence[float], bounds: tuple[Sequence[float], Sequence[float]] | None = None
) -> PairedRatios | BoundedRatios | None:
    """Return what positive ratios show, in the order of their repeats; None for fewer than LEAST_PAIRS.

    bounds: their lower and their upper ends, if ratios are known only so; `ratios` are then the middles.
    """
    if len(ratios) < LEAST_PAIRS:
        return None
    logs = np.log(np.asarray(ratios, float))
    paired = PairedRatios(logs, _autocorrelation(_without_outliers(logs)) if len(logs) >= LEAST_TO_TELL else None)
    if not bounds:
        return paired
    lower, upper = (replace(paired, logs=logs + np.log(estimate(ends) / estimate(ratios))) for ends in bounds)
    return BoundedRatios(lower, upper, paired)


def estimate(ratios: Sequence[float]) -> float:
    """Return the median of the means of any two ratios and of themselves, on a logarithmic scale."""
    return float(np.exp(_centre(np.log(np.asarray(ratios, float)))))


def standard_error(logs: np.ndarray) -> float:
    """Return that of the mean of values in the order of their measurement, from COSINES cosine-weighted averages."""
    count = len(logs)
    angles = np.pi * np.outer(np.arange(1, COSINES + 1), np.arange(count) + 0.5) / count
    averages = np.sqrt(2 / count) * np.cos(angles) @ _without_outliers(logs)
    return float(np.sqrt(np.mean(averages**2) / count))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number (Holm 1979, Scandinavian Journal of Statistics 6(2), 65-70):
    one of them is at most LEVEL by chance in at most LEVEL of cases, however many there are.
    """
    values, order = np.asarray(p_values, float), np.argsort(p_values)
    corrected = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return list(corrected[np.argsort(order)])


def _centre(values: np.ndarray) -> float:
    """Return the median of the means of any two values and of themselves."""
    return float(np.median(_means_of_two(values)))


def _means_of_two(values: np.ndarray) -> np.ndarray:
    """Return the mean of each pair of values and of each value with itself, sorted."""
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


@cache
def _rank_distribution(count: int) -> np.ndarray:
    """Return the probability that the sum of the ranks of positive values is at most 0, 1, 2, ..., where each of the
    ranks 1 to `count` belongs to a positive value with probability 1/2.
    """
    probabilities = np.zeros(count * (count + 1) // 2 + 1)
    probabilities[0] = 1
    for rank in range(1, count + 1):
        probabilities[rank:] += probabilities[:-rank].copy()
        probabilities /= 2
    return np.cumsum(probabilities)


def _without_outliers(logs: np.ndarray) -> np.ndarray:
    if len(logs) < LEAST_TO_CLIP:
        return logs
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))  # a normal distribution's standard deviation
    return np.asarray(np.clip(logs, middle - OUTLIER * spread, middle + OUTLIER * spread))


def _autocorrelation(values: np.ndarray) -> float:
    """Return the autocorrelation of successive values; 1 / n corrects its bias for values that do not correlate."""
    deviations = values - values.mean()
    squares = float(deviations @ deviations)
    return float(deviations[1:] @ deviations[:-1]) / squares + 1 / len(values) if squares else 0.0
