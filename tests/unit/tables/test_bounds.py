"""Bounds of the times of disturbed runs, and verdicts that hold within them."""

import itertools
import statistics

import numpy as np
import pytest
from records_for_tests import compared, disturbed, record
from simulated_ratios import beside_load, simulated_runs

from trainmark.tables.bounds import DELAY, MOST_LOAD, least_median, load_columns
from trainmark.tables.paired import estimate, paired_ratios
from trainmark.tables.verdicts import verdict_notes


@pytest.mark.parametrize(
    ("counts", "least"),
    [
        ({}, None),
        ({"foreign_seconds": 0.2}, 1.0 - DELAY * 0.2),
        ({"foreign_seconds": 0.2, "steal_seconds": 0.2}, None),
        ({"foreign_seconds": 0.2, "stopped_seconds": 0.3}, None),
        ({"foreign_seconds": MOST_LOAD + 0.01}, None),
    ],
)
def test_only_a_run_that_nothing_but_some_other_work_disturbed_has_bounds(counts, least):
    found = load_columns(record(changes=disturbed(**counts)), target_seconds=0.75)
    assert found["least_training_seconds"] == (least and pytest.approx(least))
    assert found["least_target_seconds"] == (least and pytest.approx(least - 0.25))


def test_the_bound_of_a_run_with_several_ranks_counts_the_other_work_beside_each():
    changes = disturbed(foreign_seconds=0.12) | {"run.workers": 2}
    alone, ranks = record(changes=changes), record(changes=changes)
    ranks["other_ranks"] = [{key: alone[key] for key in ("machine", "sessions")}]
    assert load_columns(ranks, None)["least_training_seconds"] == pytest.approx(1.0 - DELAY * 0.24)


@pytest.mark.parametrize(
    "seconds", [[0.3], [0.2, 0.4], [0.1, 0.3, 0.3], [0.2, 0.2, 0.3, 0.5], [0.2, 0.21, 0.22, 0.5, 0.9]]
)
def test_no_division_of_a_delay_gives_a_median_below_the_least(seconds):
    delay = 0.1
    parts = [part for part in itertools.product(range(9), repeat=len(seconds)) if sum(part) == 8]
    medians = [statistics.median(np.subtract(seconds, np.multiply(part, delay / 8))) for part in parts]
    assert least_median(seconds, delay) <= min(medians) + 1e-12
    assert least_median(seconds, 0.0) == statistics.median(seconds)
    assert min(medians) - least_median(seconds, delay) < 0.03, "not much below"


def test_an_interval_within_bounds_holds_the_estimate_of_any_ratios_in_them():
    rng = np.random.default_rng(0)
    middle, widths = np.exp(rng.normal(0.3, 0.02, 12)), np.exp(rng.uniform(0, 0.1, 12))
    exact, bounded = paired_ratios(middle), paired_ratios(middle, (middle / widths, middle * widths))
    (low, high), of_middles = bounded.interval(), exact.interval()
    for _ in range(100):
        assert low < estimate(middle * widths ** rng.uniform(-1, 1, 12)) < high
    assert low < of_middles[0] < of_middles[1] < high and bounded.p_value >= exact.p_value
    assert paired_ratios(middle, (middle, middle)).interval() == pytest.approx(of_middles)
    assert paired_ratios(middle, (middle / 2, middle * 2)).p_value == 1
    inverse = paired_ratios(1 / middle, (1 / middle / widths, widths / middle))
    assert inverse.interval() == pytest.approx((1 / high, 1 / low)) and inverse.p_value == pytest.approx(
        bounded.p_value
    )


@pytest.fixture
def row_of(runs_of):
    """A function that compares the training of two trainers, of 1 s and `seconds`; changes: by (name, repeat)."""

    def compare(repeats, changes, seconds=1.5):
        records = [
            record(name, repeat, seconds=(own - 0.5) / 2, changes=changes.get((name, repeat)))
            for repeat in range(1, repeats + 1)
            for name, own in (("a", 1.0), ("b", seconds))
        ]
        (row,) = compared(runs_of(*records), "training_seconds")
        return row

    return compare


BOTH = list(itertools.product("ab", range(1, 7)))


def test_a_verdict_counts_disturbed_pairs_within_bounds_if_undisturbed_ones_are_too_few(row_of):
    some = disturbed(foreign_seconds=0.12)
    row = row_of(6, dict.fromkeys(BOTH, some))
    assert (row["verdict"], row["runs"], row["bounded"], row["left_out"]) == ("slower", 6, 6, 0)
    assert (row["low"], row["high"]) == (pytest.approx(1.5 * 0.82), pytest.approx(1.5 / 0.82))
    assert verdict_notes(row) == ["6 of 6 pairs within bounds"]
    row = row_of(7, {("b", 7): some})
    assert (row["runs"], row["bounded"], row["left_out_reasons"]) == (6, 0, "1 disturbed (foreign load)")


def test_a_ratio_that_bounds_hide_names_what_a_quiet_machine_would_have_shown(row_of):
    row = row_of(6, dict.fromkeys(BOTH, disturbed(foreign_seconds=0.2)), seconds=1.1)
    assert (row["verdict"], row["low"] < 1 < row["high"]) == ("not distinguishable", True)
    assert verdict_notes(row)[0].startswith("on a quiet machine, a ratio of ")


def test_other_work_beside_one_trainer_alone_may_be_its_own(row_of):
    changes = {("b", repeat): disturbed(foreign_seconds=0.2) for repeat in range(1, 7)}
    assert row_of(6, changes, seconds=1.6)["verdict"] == "slower", "even without it"
    row = row_of(6, changes, seconds=1.1)
    assert row["verdict"] == "withheld: foreign load beside b on cpu in 6 of 6 pairs: it may be its own work"


def test_beside_load_verdicts_are_no_more_often_false_and_clear_ratios_are_found():
    told = {
        factor: [
            row["verdict"] for row in compared(beside_load(simulated_runs(40, 8, factor), 0.05), "training_seconds")
        ]
        for factor in (1.0, 1.5)
    }
    assert len({*told[1.0]} - {"not distinguishable"}) <= 1
    assert told[1.0].count("not distinguishable") >= 36 and told[1.5].count("slower") >= 30
