"""What paired ratios show: in simulations, intervals and verdicts have the error rates that they promise."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy.stats import wilcoxon
from simulated_ratios import correlated, of_a_machine

from trainmark.tables.paired import LEAST_TO_TELL, PairedRatios, estimate, holm, paired_ratios

TRIALS = 4000
"""The share of trials in which an interval holds is known to 0.35 percent; `make bench-intervals` knows it better."""


def share_held(samples, level=0.05):
    intervals = [paired_ratios(ratios).interval(level) for ratios in samples]
    return np.mean([low <= 1 <= high for low, high in intervals])


# --- intervals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["quiet", "heavy tails", "drifting", "wandering"])
@pytest.mark.parametrize("pairs", [6, 20, *(pytest.param(pairs, marks=pytest.mark.slow) for pairs in (8, 12))])
def test_a_95_percent_interval_holds_in_93_to_97_5_percent_of_cases(machine, pairs):
    assert 0.93 <= share_held(of_a_machine(machine, TRIALS, pairs)) <= 0.975


@pytest.mark.parametrize("pairs", [6, 12, 30])
def test_it_holds_in_86_percent_if_ratios_correlate_by_a_half_and_the_signed_rank_test_does_not(pairs):
    samples = correlated(TRIALS, pairs, 0.5)
    ranked = [PairedRatios(np.log(ratios), correlation=0.0).interval() for ratios in samples]
    assert np.mean([low <= 1 <= high for low, high in ranked]) < 0.88
    assert share_held(samples) >= 0.85


@pytest.mark.parametrize("pairs", [8, 20])
def test_a_detectable_ratio_is_mostly_detected(pairs):
    samples = of_a_machine("quiet", 400, pairs)
    detectable = np.median([paired_ratios(ratios).detectable() for ratios in samples])
    found = np.mean([paired_ratios(ratios * detectable).p_value <= 0.05 for ratios in samples])
    assert 0.6 <= found <= 0.95
    assert np.median([paired_ratios(ratios).detectable(0.01) for ratios in samples]) > detectable


def test_the_signed_rank_test_is_that_of_scipy():
    for pairs in (10, 15, 30):
        logs = np.random.default_rng(pairs).normal(0.4, 1, pairs)
        ranked = PairedRatios(logs, correlation=0.0)
        assert ranked.p_value == pytest.approx(wilcoxon(logs, method="exact").pvalue)
        for level in (0.01, 0.05, 0.2, 0.5):
            low, high = ranked.interval(level)
            assert (low > 1 or high < 1) == (ranked.p_value <= level)


def test_a_thousand_pairs_are_not_too_many():
    ranked = PairedRatios(np.random.default_rng(0).normal(0, 0.01, 1100), correlation=0.0)
    low, high = ranked.interval()
    assert 0.998 < low < estimate(np.exp(ranked.logs)) < high < 1.002 and 0 < ranked.p_value <= 1


def test_ten_pairs_show_nothing_at_a_level_that_they_cannot_reach():
    ranked = PairedRatios(np.full(10, 0.1), correlation=0.0)
    assert ranked.p_value == 2 / 2**10
    assert ranked.interval(0.001) == (0, inf) and ranked.detectable(0.001) == inf


def test_interval_and_p_value_of_students_t_agree():
    few = paired_ratios([1.1, 1.2, 1.15, 1.05, 1.2, 1.1])
    assert few.interval(few.p_value * 1.001)[0] > 1 > few.interval(few.p_value * 0.999)[0]


def test_a_note_says_why_the_interval_is_wider():
    trending = paired_ratios(np.exp(np.linspace(0, 0.5, 12)))
    assert trending.note == "ratios of successive repeats correlate (0.83), which widens the interval"
    assert trending.interval()[0] < PairedRatios(trending.logs, correlation=0.0).interval()[0]
    assert paired_ratios([1.1, 1.2] * (LEAST_TO_TELL // 2)).note == ""
    assert paired_ratios([1.1, 1.2, 1.3, 1.6, 1.5, 1.4]).note == "", "too few to tell"


def test_equal_ratios_and_too_few():
    assert paired_ratios([1.1] * 6).interval() == pytest.approx((1.1, 1.1))
    assert paired_ratios([1.1] * 6).p_value < 1e-9
    assert paired_ratios([1.0] * 6).p_value == paired_ratios([1.0] * 12).p_value == 1
    assert paired_ratios([1.1] * 5) is None


def test_one_slow_run_moves_neither_estimate_nor_interval_far():
    ratios = [1.1, 1.11, 1.09, 1.1, 1.12, 1.08, 1.1, 1.1]
    for place in range(len(ratios) + 1):
        slow = paired_ratios([*ratios[:place], 3.0, *ratios[place:]])
        assert estimate(np.exp(slow.logs)) == pytest.approx(1.1, rel=0.005) and slow.interval()[0] > 1.05


def test_the_estimate_is_the_median_of_the_means_of_two():
    means = [log(2), log(3), log(10), log(6) / 2, log(20) / 2, log(30) / 2]
    assert estimate([2.0, 3.0, 10.0]) == pytest.approx(exp(np.median(means)))
    assert estimate([2.0]) == pytest.approx(2.0)


# --- many comparisons ---------------------------------------------------------------------------------------------


def test_holm_is_the_worked_example():
    """Of R's p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm"), in another order."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0] and holm([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [6, 12, 20])
def test_of_400_reports_with_50_identical_pairs_at_most_5_percent_have_a_false_verdict(pairs):
    """Up to the error of the simulation: 20 of 400 are expected at most, and more than 29 in 2 % of cases."""
    p_values = [paired_ratios(ratios).p_value for ratios in of_a_machine("heavy tails", 400 * 50, pairs)]
    false = sum(min(holm(of_report)) <= 0.05 for of_report in np.reshape(p_values, (400, 50)))
    assert false <= 29
