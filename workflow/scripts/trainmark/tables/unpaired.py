"""How much slower are the runs of one campaign than those of another, which are no pairs?

Everything is computed from the logarithms. The estimate is the median of the differences of any value of the second and
any of the first (Hodges and Lehmann 1963, Annals of Mathematical Statistics 34(2), 598-611). Its standard error follows
from those of both means, which are estimated from cosine-weighted averages of each series (see `paired`), so that runs
which correlate, as on a machine that drifts, do not make it too small. Student's t applies, with the degrees of freedom
of Welch (1947, Biometrika 34(1/2), 28-35) and Satterthwaite.

The interval holds for the machines as they were while these campaigns ran. How much campaigns of one machine vary from
day to day is not in it, and several campaigns show that (`campaigns.history`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t distribution: its values, and the inverse

from trainmark.tables.paired import COSINES, LEVEL, POWER, standard_error


@dataclass(frozen=True)
class TwoSamples:
    """What two series of values show of the ratio second / first.

    least, most: the logarithms of the estimate at both ends of bounded values, else equal.
    error: the standard error of the logarithm. freedom: degrees of freedom.
    """

    least: float
    most: float
    error: float
    freedom: float

    @property
    def value(self) -> float:
        """The estimate; of bounded values the middle of its ends."""
        return float(np.exp((self.least + self.most) / 2))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval of the ratio that is wrong in at most this share of cases."""
        half = stdtrit(self.freedom, 1 - level / 2) * self.error
        return float(np.exp(self.least - half)), float(np.exp(self.most + half))

    def p_above(self, limit: float) -> float:
        """The p-value of the hypothesis that the ratio is at most this limit."""
        return self._tail(self.least - np.log(limit))

    def p_below(self, limit: float) -> float:
        """The p-value of the hypothesis that the ratio is at least this limit."""
        return self._tail(np.log(limit) - self.most)

    @property
    def p_value(self) -> float:
        """The largest level at which the interval contains 1."""
        return min(1.0, 2 * self.p_above(1), 2 * self.p_below(1))

    def detectable(self, level: float = LEVEL) -> float:
        """The smallest ratio above 1 that as many undisturbed runs with this spread show, in POWER of cases."""
        return float(np.exp(self.error * (stdtrit(self.freedom, 1 - level / 2) + stdtrit(self.freedom, POWER))))

    def needed(self, limit: float) -> float:
        """How many times as many runs would tell this ratio from the limit, in POWER of cases."""
        distance = abs(np.log(self.value / limit))
        return float((np.log(self.detectable()) / distance) ** 2) if distance else np.inf

    def _tail(self, distance: float) -> float:
        return float(stdtr(self.freedom, -distance / max(self.error, np.finfo(float).tiny)))


def two_samples(first: np.ndarray, second: np.ndarray, least_first: np.ndarray, least_second: np.ndarray) -> TwoSamples:
    """Compare two series of positive values, (runs,), in the order of their measurement.

    least_first, least_second: the lower ends of values that are known within bounds; else the values.
    """
    sides = (np.log(first), np.log(least_first)), (np.log(second), np.log(least_second))
    squares = [standard_error((most + least) / 2) ** 2 for most, least in sides]
    total = sum(squares)
    freedom = COSINES * total**2 / sum(square**2 for square in squares) if total else COSINES
    (most_first, of_first), (most_second, of_second) = sides
    return TwoSamples(_shift(most_first, of_second), _shift(of_first, most_second), total**0.5, freedom)


def _shift(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.median(np.subtract.outer(second, first)))
