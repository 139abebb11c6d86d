"""Two samples against scipy where both must agree, and where theirs must not."""

import numpy as np
import pytest
from scipy import stats

from trainmark.tables.unpaired import two_samples


def compared(first, second):
    """What the values show, which are known."""
    return two_samples(first, second, first, second)


def simulated(trials=400, runs=8, factor=1.0, spread=0.02, drift=0.0, seed=1):
    """What trials of two campaigns show, the second slower by `factor`."""
    rng = np.random.default_rng(seed)
    logs = spread * rng.normal(size=(trials, 2, runs)) + np.linspace(0, drift, runs)
    return [compared(np.exp(first), factor * np.exp(second)) for first, second in logs]


def test_the_estimate_is_the_median_of_all_ratios():
    found = compared(np.array([1.0, 2, 4]), np.array([2.0, 4, 16]))
    assert found.value == pytest.approx(np.median([2, 4, 16, 1, 2, 8, 0.5, 1, 4]))


def test_intervals_hold_and_are_as_wide_as_those_of_welch_need_to_be():
    found = simulated()
    assert 0.92 < np.mean([low < 1 < high for low, high in (one.interval() for one in found)]) < 0.98
    rng = np.random.default_rng(1)
    welch = [stats.ttest_ind(*rng.normal(size=(2, 8)), equal_var=False).pvalue <= 0.05 for _ in found]
    assert abs(np.mean([one.p_value <= 0.05 for one in found]) - np.mean(welch)) < 0.04


def test_a_machine_that_drifts_makes_no_false_verdict():
    assert np.mean([one.p_value <= 0.05 for one in simulated(drift=0.2)]) < 0.01


def test_a_detectable_ratio_is_found_in_four_of_five_cases():
    ratio = np.median([one.detectable() for one in simulated()])
    assert 0.7 < np.mean([one.p_value <= 0.05 for one in simulated(factor=ratio, seed=2)]) < 0.9


def test_the_interval_and_the_p_values_say_the_same():
    for one in simulated(20, factor=1.03):
        low, high = one.interval(0.1)
        assert one.p_above(low) == pytest.approx(0.05) == one.p_below(high)
        assert (one.p_value <= 0.05) == (not one.interval()[0] < 1 < one.interval()[1])


def test_bounds_widen_the_interval_to_both_ends():
    first, second = np.exp(0.01 * np.random.default_rng(1).normal(size=(2, 8)))
    known, bounded = compared(first, second), two_samples(first, second, 0.8 * first, 0.9 * second)
    assert np.exp(bounded.least) == pytest.approx(0.9 * known.value)
    assert np.exp(bounded.most) == pytest.approx(known.value / 0.8)
    assert bounded.interval()[0] < 0.9 * known.interval()[1] and bounded.p_value == 1


def test_equal_values_are_equal_and_other_ones_are_not():
    ones = np.ones(6)
    assert (compared(ones, ones).interval(), compared(ones, ones).p_value) == ((1, 1), 1)
    assert compared(ones, 1.1 * ones).p_value < 1e-9
