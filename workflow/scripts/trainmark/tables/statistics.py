"""Statistics used by the tables."""

import math
from collections.abc import Sequence

import numpy as np

LEAST_FOR_INTERVAL = 6
"""Fewer values allow no 95 % interval of the median: 5 values all lie on one side of it in 2 / 2**5 = 6 % of cases."""


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, smallest, largest) of at least one value. Repeats are too few for a finer measure of spread."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """(low, high): an exact interval for the median of the values' distribution, with a coverage of at least 95 %.

    None for fewer than LEAST_FOR_INTERVAL values. The only assumption is that the values are independent. The ends are
    two of the values, chosen by the binomial distribution (Thompson 1936, Annals of Mathematical Statistics 7(3),
    122-128, as implemented in scipy.stats.quantile_test).
    """
    from scipy.stats import quantile_test  # imported here because it takes half a second

    if len(values) < LEAST_FOR_INTERVAL:
        return None
    low, high = quantile_test(np.asarray(values, float), p=0.5).confidence_interval(confidence_level=0.95)
    return None if math.isnan(low) or math.isnan(high) else (float(low), float(high))


def largest_relative_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """(largest |a - b| / max(|a|, |b|), number of pairs) over two sequences, cut to the length of the shorter one.

    Two zeros differ by 0. If any value is not finite, the difference is infinite.
    """
    steps = min(len(first), len(second))
    a, b = np.asarray(first[:steps], float), np.asarray(second[:steps], float)
    if steps == 0:
        return 0.0, 0
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf"), steps
    scale = np.maximum(np.abs(a), np.abs(b))
    return float(np.max(np.abs(a - b) / np.where(scale == 0, 1, scale))), steps
