"""The interval of ratios that may correlate: simulated, it holds, and costs little where they do not."""

import numpy as np
import pytest
from simulated_ratios import simulated

from trainmark.tables.serial import LEAST_TO_TELL, ratio_interval
from trainmark.tables.statistics import median_interval

TRIALS = 2000
"""The share of trials in which an interval holds is known to half a percent.

`make bench-intervals` tries more numbers of pairs.
"""


def held(intervals: list) -> float:
    return float(np.mean([low <= 1 <= high for low, high in intervals]))


@pytest.mark.parametrize("pairs", [6, 12, 30])
def test_it_holds_where_ratios_correlate_by_a_half_and_the_exact_one_does_not(pairs):
    samples = simulated(TRIALS, pairs, 0.5)
    assert held([median_interval(ratios) for ratios in samples[:500]]) < 0.945
    assert held([ratio_interval(ratios)[0] for ratios in samples]) >= 0.93


@pytest.mark.parametrize("pairs", [6, 10, 20, 30])
def test_it_costs_little_where_ratios_are_independent(pairs):
    samples = simulated(1000, pairs, 0.0)
    exact = [median_interval(ratios) for ratios in samples]
    found = [ratio_interval(ratios)[0] for ratios in samples]
    assert held(found) >= 0.95
    widths = [np.median([np.log(high / low) for low, high in intervals]) for intervals in (exact, found)]
    assert widths[0] <= widths[1] <= 1.4 * widths[0]


def test_a_note_says_that_it_was_widened_and_why():
    trending = np.exp(np.linspace(0, 0.5, 12))
    interval, note = ratio_interval(trending)
    assert note == "interval widened, since ratios of successive repeats correlate (0.83)"
    assert interval[0] < median_interval(trending)[0]
    few = [1.1, 1.2, 1.3, 1.6, 1.5, 1.4]
    assert ratio_interval(few)[1] == (
        "interval widened, since 6 pairs can't tell whether ratios of successive repeats correlate (10 can)"
    )


def test_it_is_the_exact_one_without_a_note_where_ratios_do_not_correlate():
    alternating = [1.1, 1.2] * (LEAST_TO_TELL // 2)
    assert ratio_interval(alternating) == (median_interval(alternating), "")
    assert ratio_interval([1.1] * 6) == ((1.1, 1.1), "")
    assert ratio_interval([1.1] * 5) == (None, "")


def test_one_slow_run_does_not_make_the_interval_its_own():
    ratios = [1.1, 1.11, 1.09, 1.1, 1.12, 1.08, 1.1, 1.1]
    assert ratio_interval([*ratios, 3.0])[0][0] > 1.05
