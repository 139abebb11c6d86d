"""Published numbers beside ours: which of our runs count, what lies within their range, and what explains a number."""

from math import isnan, nan

import pytest
from records_for_tests import diverged, record, resealed, written_tables

from trainmark.tables.curves import curves_table
from trainmark.tables.published import OUTSIDE, TIME_RATIO, WITHIN, published_rows

REFERENCE = {"name": "others", "recipe": "mnist-mlp-flux", "dataset": "digits", "decimals": 2}


def rows_of(folder, *records, results, **keys):
    """The row of each published number, with our median, or a word for why there is none."""
    by_path, runs = written_tables(folder, *records)
    references = [REFERENCE | keys | {"results": results}]
    found = list(published_rows(runs, curves_table(by_path), by_path.values(), references))
    assert [row["statistic"] for row in found] == ["published", "beside_published"] * (len(found) // 2)
    both = zip(found[::2], found[1::2], strict=True)
    return [row | {"median": ours["value"], "absent": ours.get("verdict", "")} for row, ours in both]


def learning(repeat, epochs, losses=None, **options):
    """A record whose test loss after an epoch is (1 + repeat / 10) / epoch, or one of `losses`."""
    made = record("chainer", repeat, epochs=epochs, **options)
    for entry in made["curves"]:
        loss = losses[entry["epoch"] - 1] if losses else (1 + repeat / 10) / entry["epoch"]
        entry["evaluations"]["test"]["loss"] = loss
    made["result"]["test_loss"] = made["curves"][-1]["evaluations"]["test"]["loss"]
    return resealed(made)


def restarting(repeat, losses, restarts):
    return learning(
        repeat, len(losses), losses, experiment="restarted", changes={"settings.optimizer_restarts": restarts}
    )


def test_of_each_repeat_the_shortest_run_that_has_the_epochs_counts(tmp_path):
    records = [learning(repeat, epochs) for repeat in (1, 2, 3) for epochs in (2, 4)]
    found = rows_of(tmp_path, *records, results=[{"epochs": epochs, "test_loss": 0.35} for epochs in (2, 3, 5)])
    assert [row["epochs"] for row in found] == [2, 3], "no run has 5 epochs"
    for row, losses, longer in zip(found, ((0.55, 0.6, 0.65), (1.1 / 3, 0.4, 1.3 / 3)), (2, 4), strict=True):
        assert [row[key] for key in ("low", "median", "high")] == pytest.approx(losses)
        assert (row["value"], row["runs"], row["verdict"], row["compared_with"]) == (0.35, 3, OUTSIDE, "others")
        assert [run_id.split("/")[-2] for run_id in row["run_ids"]] == [f"epochs-{longer}"] * 3


@pytest.mark.parametrize(
    ("published", "decimals", "verdict"),
    [
        (0.5, 4, OUTSIDE),
        (0.54, 2, OUTSIDE),
        (0.545, 2, WITHIN),
        (0.5, 1, WITHIN),
        (0.62, 4, WITHIN),
        (0.66, 2, OUTSIDE),
        (nan, 2, OUTSIDE),
    ],
)
def test_a_number_lies_within_the_range_up_to_its_rounding(tmp_path, published, decimals, verdict):
    records = [learning(repeat, 2) for repeat in (1, 2, 3)]  # .55 to .65
    (row,) = rows_of(tmp_path, *records, results=[{"epochs": 2, "test_loss": published}], decimals=decimals)
    assert row["verdict"] == verdict


def test_with_restarts_the_number_is_the_median_at_the_ends_of_the_parts(tmp_path):
    """As of repeats that went on training one model; the epochs are those of a part. Another number explains ours."""
    restarted = restarting(1, [9.0, 0.6, 9.0, 0.4, 9.0, 0.5], 2), restarting(2, [9.0, 0.7, 9.0, 0.3, 9.0, 0.55], 2)
    fresh = [learning(repeat, 2, [2.0, 1.9]) for repeat in (1, 2)]
    results = [{"epochs": 2, "test_loss": 0.52}, {"epochs": 4, "test_loss": 0.1}]
    found = rows_of(tmp_path, *fresh, *restarted, results=results)
    assert [[row[key] for key in ("experiment", "low", "high", "verdict", "reason")] for row in found] == [
        ["e", 1.9, 1.9, OUTSIDE, "restarted, optimizer_restarts: 2"],
        ["restarted", 0.5, 0.55, WITHIN, ""],
    ]


def test_a_diverged_run_is_nan_from_there_on(tmp_path):
    results = [{"epochs": 1, "test_loss": 0.5}, {"epochs": 3, "test_loss": nan}]
    *_, last = rows_of(tmp_path, diverged("chainer", 1, epochs=3), learning(2, 3), results=results)
    assert (last["runs"], last["low"], last["verdict"]) == (2, pytest.approx(0.4), WITHIN)
    assert isnan(last["median"]) and last["absent"]


def test_a_time_is_a_ratio_of_undisturbed_runs_to_the_fewest_epochs_of_the_source(tmp_path):
    records = [record("chainer", repeat, epochs=epochs, seconds=repeat) for repeat in (1, 2) for epochs in (2, 6)]
    results = [{"epochs": 6, "training_seconds": 7.5}, {"epochs": 2, "training_seconds": 3.0}]
    (row,) = rows_of(tmp_path, *records, results=results)
    assert (row["metric"], row["epochs"], row["value"], row["verdict"], row["runs"]) == (TIME_RATIO, 6, 2.5, "", 2)
    by_id = {one["run"]["id"]: one["result"]["training_seconds"] for one in records}
    ids = row["run_ids"]
    ratios = sorted(by_id[long] / by_id[long.replace("epochs-6", "epochs-2")] for long in ids if "epochs-6" in long)
    assert [row["low"], row["high"]] == pytest.approx(ratios)
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("published", "fresh", "repeats", "is_explained"),
    [
        (0.55, (1.8, 1.9), (1, 2), True),
        (0.45, (1.8, 1.9), (1, 2), True),
        (0.2, (1.8, 1.9), (1, 2), False),  # the other comes only five times as close
        (0.55, (0.63, 0.8), (1, 2), False),  # a narrow miss
        (0.55, (1.8, 1.9), (1, 40), False),  # the other's range has many numbers: .55 to 2.5
        (0.55, (1.8,), (1, 2), False),  # one run has no range
        (0.55, (1.8, 1.9), (1,), False),
    ],
)
def test_an_experiment_explains_a_number_that_it_has_or_comes_much_closer_to(
    tmp_path, published, fresh, repeats, is_explained
):
    ours = [learning(repeat, 2, [2.0, loss]) for repeat, loss in enumerate(fresh, start=1)]
    restarted = [restarting(repeat, [9.0, 0.5, 9.0, 0.5 + repeat / 10], 1) for repeat in repeats]  # .55 to .6
    found = rows_of(tmp_path, *ours, *restarted, results=[{"epochs": 2, "test_loss": published}])
    assert [row["reason"] for row in found] == ["restarted, optimizer_restarts: 1" if is_explained else "", ""]
