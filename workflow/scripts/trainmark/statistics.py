"""The few statistics that the tables are made of."""

from collections.abc import Sequence

import numpy as np


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, smallest, largest) of at least one value. Few repeats bear no finer spread than their range."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


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
