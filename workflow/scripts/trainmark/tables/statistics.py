"""Statistics used by the tables."""

from collections.abc import Sequence

import numpy as np


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, smallest, largest) of at least one value. Repeats are too few for a finer measure of spread."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def trimmed_mean_and_deviation(values: Sequence[float]) -> tuple[float | None, float | None]:
    """(mean, standard deviation) without the smallest and the largest of at least 3 values; else (None, None).

    This is how MLPerf summarises the epochs to convergence of its reference runs: the deviation is that of the
    remaining values themselves, not an estimate for a larger population.
    """
    if len(values) < 3:
        return None, None
    kept = np.sort(np.asarray(values, float))[1:-1]
    return float(kept.mean()), float(kept.std())
