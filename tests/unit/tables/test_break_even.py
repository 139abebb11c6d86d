"""The break-even of two trainers is that of the parts of their times, and its interval holds."""

from math import inf

import numpy as np
import pandas as pd
import pytest
from records_for_tests import compared_pairs, record

from trainmark.tables.break_even import break_evens
from trainmark.tables.pairs import Pair, comparisons
from trainmark.trainer import Trainer

CPU, GPU = Trainer("a", "cpu"), Trainer("a", "gpu")


def rows_between(cpu, gpu, epochs=20, ratio=1.0):
    """The rows of the break-even. cpu, gpu: (fixed seconds, seconds per epoch) of each run."""
    runs = pd.DataFrame(
        [
            {"steady_epoch_seconds": epoch, "epochs_trained": epochs, "training_seconds": fixed + epochs * epoch}
            | {"working_seconds": fixed + epochs * epoch + 10, "phases.evaluation": 0.0, "phases.checkpoint": 0.0}
            for of_pair in zip(cpu, gpu, strict=True)
            for fixed, epoch in of_pair
        ]
    )
    runs = runs.assign(number=runs.index + 1, disturbed="")
    pair = Pair("trainers", ("e", "r", "d"), epochs, CPU, GPU, (runs, runs), "rounding", "")
    numbers = " ".join(map(str, runs["number"]))
    of_times = {"metric": "training_seconds", "value": ratio, "epochs": epochs, "run_numbers": numbers, "pair": pair}
    return list(break_evens(runs, [of_times]))


def test_the_break_even_is_where_both_take_the_same_time():
    """1 + 0.5 e = 4 + 0.2 e at 10 epochs; the same 10 s more of wall time on both sides change nothing."""
    training, wall = rows_between([(1.0, 0.5)] * 6, [(4.0, 0.2)] * 6)
    assert (training["metric"], wall["metric"]) == ("training_seconds", "wall_seconds")
    for row in (training, wall):
        assert [row["value"], row["low"], row["high"]] == pytest.approx([10, 10, 10], rel=1e-4)
        assert (Trainer.of(row), row["compared_with"], row["runs"], row["verdict"]) == (GPU, "a on cpu", 6, "")


@pytest.mark.parametrize(
    ("gpu", "faster"), [((0.5, 0.2), GPU), ((4.0, 0.6), CPU), ((4.0, 0.5), CPU)], ids=["second", "first", "same epoch"]
)
def test_there_is_none_if_one_trainer_is_always_faster(gpu, faster):
    row = rows_between([(1.0, 0.5)] * 6, [gpu] * 6)[0]
    assert (row["value"], row["low"], row["high"], row["verdict"]) == (None, None, None, "always faster")
    assert Trainer.of(row) == faster


def test_the_interval_is_open_where_no_number_of_epochs_is_ruled_out():
    """Above if the times per epoch are not distinguishable, below if the fixed parts are not."""
    noise = [0.8, 1.2, 0.85, 1.15, 0.82, 1.13]
    row = rows_between([(1.0, 0.5)] * 6, [(4.0, 0.495 * one) for one in noise])[0]
    assert row["high"] == inf and 1 < row["low"] < row["value"]
    row = rows_between([(1.0, 0.5)] * 6, [(1.4 + 4 * (one - 1), 0.4) for one in noise])[0]
    assert row["low"] == 1 < row["value"] < row["high"] < inf


def test_trainers_without_a_ratio_have_none():
    assert rows_between([(1.0, 0.5)] * 6, [(4.0, 0.2)] * 6, ratio=None) == []


@pytest.mark.slow
def test_the_interval_holds_in_95_percent_of_simulated_experiments():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        cpu, gpu = (
            [(fixed * rng.lognormal(0, 0.05), epoch * rng.lognormal(0, 0.05)) for _ in range(8)]
            for fixed, epoch in ((1.0, 0.5), (4.0, 0.2))
        )
        row = rows_between(cpu, gpu)[0]
        held += row["low"] <= 10 <= row["high"]
    assert 0.9 <= held / 200 <= 0.99


def test_the_runs_with_the_most_epochs_are_taken_from_records(runs_of):
    records = [
        record(name, repeat, epochs=epochs, seconds=seconds)
        for epochs in (2, 3)
        for repeat in range(1, 7)
        for name, seconds in (("a", 1.0), ("b", 2.0))
    ]
    runs = runs_of(*records)
    rows = list(break_evens(runs, comparisons(compared_pairs(runs))))
    longest = {str(number) for number in runs["number"][runs["epochs"] == 3]}
    assert [(row["runs"], {*row["run_numbers"].split()}) for row in rows] == [(6, longest)] * 2
