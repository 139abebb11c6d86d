"""Statistics and tables: medians over finished runs, words where there is no figure, agreement pair by pair."""

import csv
import io
import json
import math

import pytest

from trainmark import tables
from trainmark.figures import FIGURES, save_figure
from trainmark.statistics import largest_relative_difference, median_and_range


def record(framework, repeat, epochs=2, losses=(2.0, 1.0), test_loss=0.5, seconds=3.0, diverged=None, dropout=False):
    """A record with what the tables read."""
    run = {"id": f"e/r/d/{framework}/{epochs}/{repeat}", "experiment": "e", "recipe": "r", "dataset": "d"}
    run |= {"framework": framework, "device": "cpu", "epochs": epochs, "repeat": repeat, "workers": 1, "loop": "stock"}
    result = {"epochs_trained": epochs, "training_seconds": seconds, "first_epoch_seconds": 2.0}
    result |= {"steady_epoch_seconds": None, "test_loss": test_loss, "test_accuracy": 0.875}
    result |= {"train_loss": None, "train_accuracy": None}
    evaluations = {"test": {"loss": test_loss, "accuracy": 0.875}}
    provenance = {
        "host": "h",
        "cpu_model": "c",
        "threads": 2,
        "device": {"kind": "cpu", "name": "n"},
        "versions": {"x": "1"},
    }
    provenance |= {"python": "3", "platform": "p", "trainmark": "0", "git_commit": None, "started": "s"}
    return {
        "run": run,
        "settings": {"parameters": 1, "batch_size": 1, "seed": 1, "dropout": dropout},
        "status": "diverged" if diverged else "ok",
        "diverged": diverged,
        "result": result,
        "curves": [
            {"epoch": i, "seconds": 1.0, "batch_loss": losses[0], "evaluations": evaluations}
            for i in range(1, epochs + 1)
        ],
        "step_losses": list(losses),
        "phases_seconds": {"evaluation": 1.0},
        "wall_seconds": 5.0,
        "provenance": provenance,
    }


@pytest.fixture
def table(tmp_path):
    """A function that writes records to files and gives (records by path, runs table)."""

    def make(*records):
        by_path = {}
        for i, content in enumerate(records):
            path = tmp_path / f"{i}.json"
            path.write_text(json.dumps(content))
            by_path[str(path)] = content
        return by_path, tables.runs_table(by_path)

    return make


DIVERGED = {"kind": "nan", "epoch": 1, "step": 1, "last_finite_loss": None}


@pytest.mark.parametrize(
    ("values", "wanted"), [([3.0], (3, 3, 3)), ([1.0, 9.0, 2.0], (2, 1, 9)), ([1.0, 2.0], (1.5, 1, 2))]
)
def test_median_and_range(values, wanted):
    assert median_and_range(values) == wanted


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1.0, 2.0], [1.0, 2.0], (0.0, 2)),
        ([1.0, 2.0], [1.0, 1.0, 5.0], (0.5, 2)),
        ([0.0], [0.0], (0.0, 1)),
        ([1.0], [-1.0], (2.0, 1)),
        ([1.0], [math.nan], (math.inf, 1)),
        ([math.inf], [math.inf], (math.inf, 1)),
        ([], [1.0], (0.0, 0)),
    ],
)
def test_largest_relative_difference(first, second, wanted):
    assert largest_relative_difference(first, second) == wanted


def test_summary_leaves_diverged_runs_out_of_medians_and_counts_them(table):
    _, runs = table(
        record("a", 1, test_loss=0.5, seconds=1.0),
        record("a", 2, test_loss=0.7, seconds=5.0),
        record("a", 3, test_loss="NaN", seconds=0.1, diverged=DIVERGED),
    )
    (row,) = tables.summary_table(runs).to_dict("records")
    assert (row["runs"], row["diverged"]) == (3, 1)
    assert (row["test_loss_median"], row["test_loss_min"], row["test_loss_max"]) == pytest.approx((0.6, 0.5, 0.7))
    assert row["training_seconds_median"] == 3.0
    assert row["run_numbers"] == "1 2 3"


def test_csv_says_why_a_figure_is_absent(table):
    _, runs = table(record("a", 1), record("b", 1, test_loss="Infinity", diverged=DIVERGED))
    ok, diverged = csv.DictReader(io.StringIO(tables.csv_text(tables.summary_table(runs))))
    assert ok["test_loss_median"] == "0.5"
    assert ok["train_loss_median"] == "not measured"
    assert ok["steady_epoch_seconds_max"] == "not measured"
    assert diverged["test_loss_median"] == "diverged"


def test_runs_keep_their_order_and_name_their_record(table):
    by_path, runs = table(record("b", 1), record("a", 1))
    assert list(runs["framework"]) == ["b", "a"]
    assert list(runs["number"]) == [1, 2]
    assert list(runs["record"]) == list(by_path)
    assert runs["record_sha256"].str.fullmatch("[0-9a-f]{64}").all()


def test_agreement_compares_equal_settings_alone(table):
    by_path, _ = table(
        record("a", 1, losses=(1.0, 1.0)),
        record("a", 2, losses=(1.0, 1.0)),
        record("b", 1, losses=(1.0, 0.9)),
        record("b", 2, losses=(1.0, 0.5)),
        record("b", 3, losses=(1.0, 0.1)),  # no partner
        record("b", 1, epochs=9, losses=(1.0, 0.1)),  # another epoch setting
    )
    (row,) = tables.agreement_table(by_path).to_dict("records")
    assert (row["first"], row["second"]) == ("a on cpu", "b on cpu")
    assert (row["steps"], row["pairs"]) == (2, 2)
    assert row["largest"] == 0.5
    assert row["median"] == pytest.approx(0.3)
    assert row["run_ids"] == "e/r/d/a/2/1 e/r/d/b/2/1 e/r/d/a/2/2 e/r/d/b/2/2"


@pytest.mark.parametrize("left_out", [{"dropout": True}, {"diverged": DIVERGED, "test_loss": "NaN"}])
def test_agreement_leaves_out_dropout_and_diverged_runs(table, left_out):
    by_path, _ = table(record("a", 1), record("b", 1, **left_out))
    assert tables.agreement_table(by_path).empty


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("training_seconds", 0.11, "0.110"),
        ("training_seconds", 99.949, "99.9"),
        ("training_seconds", 99.96, "100"),
        ("training_seconds", 1234.5, "1234"),
        ("test_accuracy", 0.98349, "98.35 %"),
        ("test_loss", 0.12345, "0.1235"),
    ],
)
def test_figures_as_people_read_them(metric, value, text):
    assert tables.shown_figure(metric, value) == text


def test_terminal_table_names_what_diverged(table):
    by_path, runs = table(record("a", 1), record("a", 2, test_loss="NaN", diverged=DIVERGED))
    text = tables.terminal_text(tables.summary_table(runs), tables.agreement_table(by_path))
    assert "e: r on d" in text
    assert "1 of 2 diverged" in text


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("losses", [("NaN",), (0.5, "Infinity"), (0.5,), (0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.7)])
def test_figures_are_drawn_and_are_the_same_each_time(table, tmp_path, name, losses):
    """Of runs that all diverged, of some, and of more frameworks than there are colours."""
    finite = [loss for loss in losses if isinstance(loss, float)]
    records = [
        record(f"f{i}", 1, test_loss=loss, diverged=None if loss in finite else DIVERGED)
        for i, loss in enumerate(losses)
    ]
    by_path, runs = table(*records)
    written = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        files = [folder / f"{name}.{kind}" for kind in ("pdf", "svg", "png")]
        save_figure(name, runs, tables.curves_table(by_path), files)
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    assert all(len(content) > 1000 for content in written[0])
