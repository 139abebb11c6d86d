"""Where does a series of values change?

E-divisive (Matteson and James 2014, Journal of the American Statistical Association 109(505), 334-345), as Daly et al.
(2020, ICPE, "The Use of Change Point Detection to Identify Software Performance Regressions in a Continuous Integration
System") use it for benchmarks: a stretch is split where the energy distance between both parts is largest, a
permutation test says how often chance gives as large a distance, and if that is seldom, both parts are searched.

The test assumes nothing about the distribution of values, but that they are independent where nothing changes. A drift
is reported as change points, and so is a machine whose speed wanders: if successive values correlate by 0.5, a change
is found in 29 % of series of 20 values (make bench-history). A value that stands alone is an outlier and no change
point: a part has at least LEAST_PART values.

The distance of values in one dimension is a weighted sum of the gaps between sorted neighbours. The weights follow from
the ranks alone, so that all series of a length share their permutations.
"""

from collections.abc import Sequence
from math import ceil, comb

import numpy as np

from trainmark.tables.paired import LEVEL, holm

LEAST_PART = 2
"""Smallest number of values in a part: the distance of two values within a part is needed."""

LEAST_PERMUTATIONS = 999
"""Their number for few series. It grows with the number of series, for which p-values are corrected."""

CHUNK = 100_000
"""Most weights that are held at a time."""


def change_points(series: Sequence[Sequence[float]]) -> list[dict[int, float]]:
    """Return of several series, each in the order of time, the index of the first value after each change, and its
    p-value. This is corrected (Holm) for the number of series that are long enough for a change in one series. If no
    series changes, some change point is therefore found in at most LEVEL of calls.
    """
    tests = sum(len(one) >= fewest() for one in series)
    found: list[dict[int, float]] = [{} for _ in series]
    stretches = [(which, 0, len(one)) for which, one in enumerate(series)]
    while stretches := [one for one in stretches if one[2] - one[1] >= fewest(tests)]:
        tested = _tested([np.asarray(series[which][start:end], float) for which, start, end in stretches], tests)
        corrected = holm([p_value for _, p_value in tested] + [1.0] * (tests - len(tested)))
        parts = []
        for (which, start, end), (place, _), p_value in zip(stretches, tested, corrected, strict=False):
            if p_value <= LEVEL:
                found[which][start + place] = float(p_value)
                parts += [(which, start, start + place), (which, start + place, end)]
        stretches = parts
    return [dict(sorted(one.items())) for one in found]


def fewest(tests: int = 1) -> int:
    """The smallest number of values in which a change can be found, if so many series are tested. The p-value of a part
    of k of n values is at least 2 / comb(n, k): that is the share of orders in which these k come first or last.
    """
    count = 2 * LEAST_PART
    while 2 / comb(count, count // 2) > LEVEL / max(tests, 1):
        count += 1
    return count


def _tested(stretches: Sequence[np.ndarray], tests: int) -> list[tuple[int, float]]:
    """(index of the first value of the second part, p-value) of the best split of each stretch."""
    results, permutations = [(0, 1.0)] * len(stretches), max(LEAST_PERMUTATIONS, ceil(2 * tests / LEVEL) - 1)
    for length in {len(one) for one in stretches}:
        places = [place for place, one in enumerate(stretches) if len(one) == length]
        values = np.array([stretches[place] for place in places])
        gaps = np.diff(np.sort(values)).astype(np.float32)
        distances = np.einsum("stk,sk->st", _weights(values.argsort(kind="stable").argsort()), gaps)
        splits, largest = distances.argmax(axis=1) + LEAST_PART, distances.max(axis=1)
        generator, size, exceeding = np.random.default_rng(length), max(1, CHUNK // length**2), np.zeros(len(places))
        for start in range(0, permutations, size):
            orders = generator.random((min(size, permutations - start), length)).argsort(axis=1)
            of_orders = np.tensordot(_weights(orders), gaps, (2, 1)).max(axis=1)
            exceeding += (of_orders >= largest - 1e-5 * np.abs(largest)).sum(axis=0)
        for place, split, p_value in zip(places, splits, (1 + exceeding) / (1 + permutations), strict=True):
            results[place] = int(split), max(float(p_value), 2 / comb(length, int(split)))
    return results


def _weights(ranks: np.ndarray) -> np.ndarray:
    """The weights of gaps in the distance of each split: (orders, splits, gaps). ranks: in time, (orders, length)."""
    length = ranks.shape[1]
    first = np.arange(LEAST_PART, length - LEAST_PART + 1, dtype=np.float32)[:, None]  # values in the first part
    second, below = length - first, np.arange(1, length, dtype=np.float32)
    counts = np.cumsum(ranks[:, :, None] < below, axis=1, dtype=np.int16)[:, LEAST_PART - 1 : length - LEAST_PART]
    f, g = counts / first, (below - counts) / second  # shares of both parts below a gap
    within = f * (1 - f) * first / (first - 1) + g * (1 - g) * second / (second - 1)
    return np.asarray(2 * first * second / length * (f + g - 2 * f * g - within))
