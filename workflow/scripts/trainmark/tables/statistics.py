"""The few statistics that the tables are made of."""

import math
from collections.abc import Sequence

import numpy as np

LEAST_FOR_INTERVAL = 6
"""Fewer values bear no interval of the median at 95 %: of 5, all lie on one side of it in 2 / 2**5 = 6 % of cases."""


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, smallest, largest) of at least one value. Few repeats bear no finer spread than their range."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """(low, high): an interval that holds the median of where the values come from, in 95 % of cases at least.

    None with fewer than LEAST_FOR_INTERVAL values. Exact and free of any assumption but that the values are
    independent: its ends are two of the values, chosen by the binomial distribution (Thompson 1936, Annals of
    Mathematical Statistics 7(3), 122-128, as scipy.stats.quantile_test has it).
    """
    from scipy.stats import quantile_test  # half a second, which those who read a table alone need not wait for

    if len(values) < LEAST_FOR_INTERVAL:
        return None
    low, high = quantile_test(np.asarray(values, float), p=0.5).confidence_interval(confidence_level=0.95)
    return None if math.isnan(low) or math.isnan(high) else (float(low), float(high))


def largest_relative_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """(largest |a - b| / max(|a|, |b|), number of pairs) over two sequences, as far as the shorter one goes.

    Two zeros differ by 0; a value that is not finite differs infinitely from any other.
    """
    steps = min(len(first), len(second))
    a, b = np.asarray(first[:steps], float), np.asarray(second[:steps], float)
    if steps == 0:
        return 0.0, 0
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf"), steps
    scale = np.maximum(np.abs(a), np.abs(b))
    return float(np.max(np.abs(a - b) / np.where(scale == 0, 1, scale))), steps
