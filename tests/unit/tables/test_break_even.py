"""The break-even of two trainers is that of the parts of their times, and its interval holds."""

from math import inf

import numpy as np
import pandas as pd
import pytest
from records_for_tests import certificates_of, record, written_tables

from trainmark.tables.break_even import break_even_table
from trainmark.tables.comparisons import comparisons_table
from trainmark.tables.tables import rows_of

COMPARISON = {
    "experiment": "e", "recipe": "r", "dataset": "d", "epochs": 20, "first": "a on cpu", "second": "a on gpu",
    "metric": "training_seconds", "ratio": 1.0, "parity": "rounding",
}  # fmt: skip


def table_of(cpu, gpu, epochs=20, **changes):
    """The rows of the break-even table. cpu, gpu: (fixed seconds, seconds per epoch) of each run."""
    runs = pd.DataFrame(
        [
            {"id": f"{name}{i}", "steady_epoch_seconds": epoch, "epochs_trained": epochs}
            | {"training_seconds": fixed + epochs * epoch, "wall_seconds": fixed + epochs * epoch + 10 + 7 + 3}
            | {"phases.evaluation": 0.0, "phases.checkpoint": 0.0, "phases.device_wait": 7.0, "phases.peak": 3.0}
            for name, parts in (("c", cpu), ("g", gpu))
            for i, (fixed, epoch) in enumerate(parts)
        ]
    )
    ids = " ".join(f"c{i} g{i}" for i in range(len(cpu)))
    return rows_of(break_even_table(runs, pd.DataFrame([COMPARISON | {"run_ids": ids} | changes])))


def test_the_break_even_is_where_both_take_the_same_time():
    """1 + 0.5 e = 4 + 0.2 e at 10 epochs; the same 10 s more of wall time on both sides change nothing."""
    training, wall = table_of([(1.0, 0.5)] * 6, [(4.0, 0.2)] * 6)
    assert (training["metric"], wall["metric"]) == ("training_seconds", "wall_seconds")
    for row in (training, wall):
        assert [row["epochs"], row["low"], row["high"]] == pytest.approx([10, 10, 10], rel=1e-4)
        assert (row["faster_after"], row["pairs"]) == ("a on gpu", 6)
    assert [training[key] for key in ("fixed_first", "epoch_first", "fixed_second", "epoch_second")] == pytest.approx(
        [1.0, 0.5, 4.0, 0.2]
    )
    assert (wall["fixed_first"], wall["fixed_second"]) == pytest.approx((11.0, 14.0)), "without the wait and the peak"


@pytest.mark.parametrize("gpu", [(0.5, 0.2), (4.0, 0.6), (4.0, 0.5)], ids=["always", "never", "same per epoch"])
def test_there_is_none_if_one_trainer_is_always_faster(gpu):
    row = table_of([(1.0, 0.5)] * 6, [gpu] * 6)[0]
    assert (row["epochs"], row["low"], row["high"], row["faster_after"]) == (None, None, None, "")


def test_the_interval_is_open_where_no_number_of_epochs_is_ruled_out():
    """Above if the times per epoch are not distinguishable, below if the fixed parts are not."""
    noise = [0.8, 1.2, 0.85, 1.15, 0.82, 1.13]
    row = table_of([(1.0, 0.5)] * 6, [(4.0, 0.495 * one) for one in noise])[0]
    assert row["high"] == inf and 1 < row["low"] < row["epochs"]
    row = table_of([(1.0, 0.5)] * 6, [(1.4 + 4 * (one - 1), 0.4) for one in noise])[0]
    assert row["low"] == 1 < row["epochs"] < row["high"] < inf


@pytest.mark.parametrize("changes", [{"parity": "different"}, {"parity": "not certified"}, {"ratio": None}])
def test_trainers_that_are_not_compared_have_none(changes):
    assert table_of([(1.0, 0.5)] * 6, [(4.0, 0.2)] * 6, **changes) == []


@pytest.mark.slow
def test_the_interval_holds_in_95_percent_of_simulated_experiments():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        cpu, gpu = (
            [(fixed * rng.lognormal(0, 0.05), epoch * rng.lognormal(0, 0.05)) for _ in range(8)]
            for fixed, epoch in ((1.0, 0.5), (4.0, 0.2))
        )
        row = table_of(cpu, gpu)[0]
        held += row["low"] <= 10 <= row["high"]
    assert 0.9 <= held / 200 <= 0.99


def test_the_runs_with_the_most_epochs_are_taken_from_records(tmp_path):
    records = [
        record(name, repeat, epochs=epochs, seconds=seconds)
        for epochs in (2, 3)
        for repeat in range(1, 7)
        for name, seconds in (("a", 1.0), ("b", 2.0))
    ]
    _, runs = written_tables(tmp_path, *records)
    rows = rows_of(break_even_table(runs, comparisons_table(runs, certificates_of(runs))))
    assert [row["pairs"] for row in rows] == [6, 6]
    assert all("epochs-3" in one for row in rows for one in row["run_ids"].split())
