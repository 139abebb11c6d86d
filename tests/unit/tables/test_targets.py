"""Time to accuracy: found in the curves, and runs that never get there are not forgotten."""

import numpy as np
import pytest
from records_for_tests import changed, compared, disturbed, record

from trainmark.tables.targets import times_to_accuracy

TARGET = {"settings.target_accuracy": 0.8}


def with_curve(framework, repeat, accuracies, **changes):
    """A record with a target of 0.8 and these accuracies after its epochs of 1 s."""
    one = record(framework, repeat, epochs=len(accuracies), seconds=1.0, changes=TARGET | changes)
    for entry, accuracy in zip(one["curves"], accuracies, strict=True):
        entry["evaluations"]["test"]["accuracy"] = accuracy
    return changed(one, {"result.test_accuracy": accuracies[-1]})


def rows_by_statistic(runs):
    """The rows on the target accuracy of the runs of one trainer."""
    return {row["statistic"]: row for row in times_to_accuracy(runs)}


def test_the_target_is_reached_at_the_first_evaluation_that_has_it(runs_of):
    """Even if later ones fall below it. Times hold the first step, as in the table of runs."""
    runs = runs_of(with_curve("a", 1, [0.5, 0.8, 0.7]), with_curve("a", 2, [0.5, 0.6, 0.7]), record("b"))
    first_step = runs["first_step_seconds"].iloc[0]
    assert runs["target_seconds"].tolist() == pytest.approx([first_step + 2.0, np.nan, np.nan], nan_ok=True)
    assert runs["target_epochs"].tolist() == pytest.approx([2, np.nan, np.nan], nan_ok=True)
    assert runs["target_accuracy"].tolist() == pytest.approx([0.8, 0.8, np.nan], nan_ok=True)


def test_the_median_counts_runs_that_never_get_there(runs_of):
    """Of 7 runs 4 reach the target, after 1, 2, 3 and 4 epochs: the median is the 4th, and that of these 4 is 2.5."""
    curves = [[0.5] * (i - 1) + [0.8] * (5 - i) for i in (1, 2, 3, 4)] + [[0.5] * 4] * 3
    runs = runs_of(*(with_curve("a", i, curve) for i, curve in enumerate(curves, start=1)))
    rows = rows_by_statistic(runs)
    assert (rows["reached"]["runs"], rows["reached"]["value"]) == (7, 4)
    row = rows["median_time_to_accuracy"]
    assert row["value"] == pytest.approx(runs["target_seconds"].max())
    assert row["low"] < row["value"] and row["high"] == np.inf
    assert "trimmed_mean" not in rows, "unless all reach it"


def test_a_median_that_is_not_reached_says_so(runs_of):
    row = rows_by_statistic(runs_of(*(with_curve("a", i, [0.5, 0.6]) for i in (1, 2, 3))))["median_time_to_accuracy"]
    assert (row["value"], row["runs"], row["verdict"]) == (None, 3, "not reached")


def test_equal_times_have_a_median_at_the_start_of_an_interval_without_end(runs_of):
    runs = runs_of(*(with_curve("a", i, [0.5, 0.8]) for i in range(1, 7)))
    row = rows_by_statistic(runs)["median_time_to_accuracy"]
    assert row["low"] == row["value"] == pytest.approx(2.5) and row["high"] == np.inf


def test_the_epochs_to_the_target_are_summarised_as_in_mlperf(runs_of):
    """As in the worked example of MLPerf's reference convergence points: mean 15.75, standard deviation .43."""
    epochs = [16, 14, 16, 17, 16, 16, 15, 16, 15, 16]
    curves = [[0.5] * (one - 1) + [0.9] * (18 - one) for one in epochs]
    row = rows_by_statistic(runs_of(*(with_curve("a", i, c) for i, c in enumerate(curves, start=1))))["trimmed_mean"]
    ends = [round(row[end] - row["value"], 2) for end in ("low", "high")]
    assert (row["value"], ends) == (15.75, [-0.43, 0.43])


def test_times_to_accuracy_get_a_verdict_at_the_most_epochs(runs_of):
    records = [
        with_curve(name, repeat, [0.5] * late + [0.8] * (epochs - late))
        for epochs in (6, 7)
        for repeat in range(1, 7)
        for name, late in (("a", 1), ("b", 3 + repeat % 2))
    ]
    rows = compared(runs_of(*records), "target_seconds")
    assert [(row["epochs"], row["verdict"], row["runs"]) for row in rows] == [(7, "slower", 6)]


def test_a_verdict_on_them_is_withheld_if_a_run_never_gets_there(runs_of):
    records = [with_curve(name, repeat, [0.5, 0.8]) for repeat in range(1, 7) for name in "ab"]
    records += [with_curve("a", 7, [0.5, 0.5]), with_curve("b", 7, [0.5, 0.8])]
    (row,) = compared(runs_of(*records), "target_seconds")
    assert row["verdict"] == "withheld: in 1 of 7 pairs a run never reached the target accuracy"
    assert row["value"] is None


@pytest.mark.parametrize("dropout", [True, False])
def test_losses_and_accuracies_get_a_verdict_where_dropout_masks_differ(runs_of, dropout):
    """Disturbed runs count here: they are slow, but no worse."""
    changes = {"network.dropout": dropout} | disturbed(foreign_seconds=1.0)
    records = [
        record(name, repeat, loss=loss + repeat / 100, changes=changes)
        for repeat in range(1, 8)
        for name, loss in (("a", 0.5), ("b", 0.7))
    ]
    rows = {row["metric"]: row for row in compared(runs_of(*records))}
    assert ("test_loss" in rows) == ("test_accuracy" in rows) == dropout
    if dropout:
        assert (rows["test_loss"]["verdict"], rows["test_accuracy"]["verdict"]) == ("higher", "not distinguishable")
        assert rows["test_loss"]["value"] > 1 and rows["test_loss"]["runs"] == 7
        assert rows["training_seconds"]["runs"] == 0
