"""The interval for ratios that may correlate: in simulations it has its coverage, and costs little otherwise."""

import numpy as np
import pytest
from simulated_ratios import simulated

from trainmark.tables.serial import LEAST_TO_TELL, ratio_interval
from trainmark.tables.statistics import median_interval

TRIALS = 2000
"""The share of trials in which an interval holds is known to half a percent.

`make bench-intervals` tries more numbers of pairs.
"""


def coverage(intervals: list) -> float:
    return float(np.mean([low <= 1 <= high for low, high in intervals]))


@pytest.mark.parametrize("pairs", [6, 12, 30])
def test_it_has_its_coverage_for_ratios_that_correlate_by_a_half_and_the_exact_one_has_not(pairs):
    samples = simulated(TRIALS, pairs, 0.5)
    assert coverage([median_interval(ratios) for ratios in samples[:500]]) < 0.945
    assert coverage([ratio_interval(ratios)[0] for ratios in samples]) >= 0.93


@pytest.mark.parametrize("pairs", [6, 10, 20, 30])
def test_it_is_hardly_wider_for_independent_ratios(pairs):
    samples = simulated(1000, pairs, 0.0)
    exact = [median_interval(ratios) for ratios in samples]
    widened = [ratio_interval(ratios)[0] for ratios in samples]
    assert coverage(widened) >= 0.95
    widths = [np.median([np.log(high / low) for low, high in intervals]) for intervals in (exact, widened)]
    assert widths[0] <= widths[1] <= 1.4 * widths[0]


def test_a_note_says_why_it_was_widened():
    trending = np.exp(np.linspace(0, 0.5, 12))
    interval, note = ratio_interval(trending)
    assert note == "interval widened: ratios of successive repeats correlate (0.83)"
    assert interval[0] < median_interval(trending)[0]
    few = [1.1, 1.2, 1.3, 1.6, 1.5, 1.4]
    assert ratio_interval(few)[1] == (
        "interval widened: 6 pairs are too few to tell whether ratios of successive repeats correlate (10 needed)"
    )


def test_it_is_the_exact_one_without_a_note_if_ratios_do_not_correlate():
    alternating = [1.1, 1.2] * (LEAST_TO_TELL // 2)
    assert ratio_interval(alternating) == (median_interval(alternating), "")
    assert ratio_interval([1.1] * 6) == ((1.1, 1.1), "")
    assert ratio_interval([1.1] * 5) == (None, "")


def test_one_slow_run_does_not_dominate_the_interval():
    ratios = [1.1, 1.11, 1.09, 1.1, 1.12, 1.08, 1.1, 1.1]
    assert ratio_interval([*ratios, 3.0])[0][0] > 1.05
