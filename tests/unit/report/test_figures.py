"""Figures are drawn whatever runs there are, and are the same each time."""

from unittest import mock
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from records_for_tests import disturbed, diverged, out_of_memory, record, resealed, streamed, written_tables

from trainmark.plan.figures import known_figures
from trainmark.report import figures
from trainmark.report.figures import ALL_CENSORED, NOTE_COLUMNS, save_figure
from trainmark.tables.curves import curves_table

CASES = {
    "more frameworks than colours": [record(f"f{i}", loss=0.1 * (i + 1)) for i in range(7)],
    "one diverged": [record("a"), diverged("b", kind="inf")],
    "all diverged": [diverged("a"), diverged("b")],
    "one out of memory": [record("a", 1), out_of_memory("a", 2), out_of_memory("b", 1)],
    "from a stream": [streamed(record("a"), evaluation_steps=4), streamed(record("b"))],
    "one without top-5 accuracy": [streamed(record("a")), record("b")],
    "none trained an epoch": [out_of_memory("a"), out_of_memory("b")],
}


def saved(folder, name, records):
    """The content of a figure's file in each format."""
    by_path, runs = written_tables(folder, *records)
    files = [folder / f"{name}.{kind}" for kind in ("pdf", "svg", "png")]
    save_figure(name, runs, curves_table(by_path), "Parity: rounding", files)
    return [file.read_bytes() for file in files]


@pytest.mark.parametrize("name", known_figures())
@pytest.mark.parametrize("records", CASES.values(), ids=CASES)
def test_figures_are_drawn(tmp_path, name, records):
    assert all(len(content) > 1000 for content in saved(tmp_path, name, records))


@pytest.mark.parametrize("name", known_figures())
def test_figures_are_the_same_each_time(tmp_path, name):
    records = [record("a", 1), record("b", 1), diverged("b", 2, kind="inf")]
    assert saved(tmp_path / "one", name, records) == saved(tmp_path / "two", name, records)


@pytest.fixture
def drawn(tmp_path):
    """A function that draws a figure of these records and returns its axes."""

    def draw(name, *records):
        by_path, runs = written_tables(tmp_path, *records)
        return getattr(figures, f"draw_{name}")(runs, curves_table(by_path)).axes

    return draw


@pytest.mark.parametrize("name", known_figures())
def test_a_note_is_below_the_axes_and_wrapped_to_the_width(tmp_path, name):
    by_path, runs = written_tables(tmp_path, record("a"))
    note = "Not to be ranked:\na on cpu and b on cpu: different, " + "they part in the forward of conv1, " * 9
    file = tmp_path / "figure.svg"
    with mock.patch.dict(matplotlib.rcParams, {"svg.fonttype": "none"}):  # text as text
        save_figure(name, runs, curves_table(by_path), note, [file])
    texts = ["".join(one.itertext()) for one in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    start = texts.index("Not to be ranked:")
    lines = texts[start : start + 5]
    assert " ".join(line.strip() for line in lines) == " ".join(note.split())
    assert all(len(line) <= NOTE_COLUMNS for line in lines)


@pytest.mark.parametrize("note", ["$5 and $6_a", r"$\nosuch{$ and a_b^c"], ids=["mathematics", "no mathematics"])
def test_a_note_is_not_parsed_as_mathematics(tmp_path, note):
    by_path, runs = written_tables(tmp_path, record("a"))
    files = [tmp_path / f"figure.{kind}" for kind in ("svg", "pdf", "png")]
    with mock.patch.dict(matplotlib.rcParams, {"svg.fonttype": "none"}):  # text as text
        save_figure("curves", runs, curves_table(by_path), note, files)
    assert note in [one.text for one in ElementTree.parse(files[0]).iter("{http://www.w3.org/2000/svg}text")]


def test_each_figure_has_a_caption():
    captions = known_figures()
    assert list(captions) == ["curves", "accuracy", "training_time"]
    assert all(caption.endswith(".") and "\n" not in caption for caption in captions.values())


@pytest.mark.parametrize("name", known_figures())
def test_a_figure_says_if_all_runs_were_censored(drawn, name):
    axes = drawn(name, diverged("a"), out_of_memory("b"))
    assert ALL_CENSORED in [text.get_text() for text in axes[0].texts]


def test_dots_of_one_number_of_epochs_are_close_together(drawn):
    (axis,) = drawn("training_time", *(record(framework, 1) for framework in "abc"))
    places = np.log([float(place) for line in axis.lines for place in line.get_xdata()])
    assert np.ptp(places) < 0.2 * np.ptp(np.log(axis.get_xlim()))


def test_training_times_are_those_of_the_runs_that_are_ok(drawn):
    (axis,) = drawn("training_time", record("a", 1, seconds=1.0), diverged("a", 2, seconds=7.0), out_of_memory("a", 3))
    times = {float(value) for line in axis.lines for value in line.get_ydata()}
    assert times == {2.5}


def lines_of(axis):
    """The numbers of epochs that each line of an axis joins; dots are left out."""
    return [
        [round(x) for x in line.get_xdata()]
        for line in axis.lines
        if line.get_linestyle() != "None" and len(line.get_xdata())
    ]


def test_lines_join_only_runs_of_the_same_call(drawn):
    later = {"sessions.0.call": "2025-01-02T00:00:00+00:00"}
    settings = [record("a", 1, epochs=epochs) for epochs in (1, 3, 10)]
    (axis,) = drawn("training_time", *settings)
    assert lines_of(axis) == [[1, 3, 10]]
    (axis,) = drawn("training_time", *settings, record("a", 1, epochs=30, changes=later))
    assert lines_of(axis) == [[1, 3, 10], [30]]


def test_disturbed_runs_are_hollow(drawn):
    hit = disturbed(stopped_seconds=0.5)
    (axis,) = drawn("training_time", record("a", 1, seconds=1.0), record("a", 2, seconds=7.0, changes=hit))
    hollow = [
        line.get_ydata() for line in axis.lines if line.get_markerfacecolor() == "none" and line.get_marker() == "o"
    ]
    assert [list(seconds) for seconds in hollow] == [[14.5]]


def test_a_diverged_run_has_a_cross_at_its_last_finite_value(drawn):
    stopped = record("a", 2, epochs=3)
    stopped |= {"status": "diverged", "diverged": {"kind": "nan", "epoch": 3, "step": 30, "last_finite_loss": 0.5}}
    stopped["curves"][2]["evaluations"]["test"]["loss"] = stopped["result"]["test_loss"] = "NaN"
    stopped["weights"] = None
    axes = drawn("curves", record("a", 1, epochs=3), resealed(stopped), out_of_memory("a", 3, epochs=3))
    crosses = [line for line in axes[0].lines if line.get_marker() == "x"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [([2], [0.5])]


def points_of(axis):
    """The points of each line of an axis, the lines of its legend left out."""
    return [list(zip(*line.get_data(), strict=True)) for line in axis.lines if len(line.get_xdata())]


def test_accuracy_is_drawn_by_epoch_and_by_time_and_the_top_5_below(drawn):
    axes = drawn("accuracy", streamed(record("a", seconds=3600.0), evaluation_steps=6), streamed(record("b"), 0.0, 0.8))
    assert [axis.get_title() for axis in axes] == ["test accuracy"] * 2 + ["test top-5 accuracy"] * 2
    assert [axis.get_xlabel() for axis in axes] == ["", "", "epoch", "training time, hours"]
    assert points_of(axes[0])[0] == [(0.5, 0.5), (1, 0.75), (1.5, 0.5), (2, 0.75)]
    first_step = 0.5 / 3600
    hours = [(0.5, 0.9), (1, 0.9), (1.5, 0.9), (2, 0.9)]
    assert points_of(axes[3])[0] == [(pytest.approx(time + first_step), value) for time, value in hours]
    assert {value for _, value in points_of(axes[2])[1]} == {0.8}


def test_each_run_has_a_line_of_accuracy(drawn):
    axes = drawn("accuracy", record("a", 1), record("a", 2), record("a", 1, epochs=1))
    assert len(axes) == 2, "no top-5 accuracy"
    assert [len(points_of(axis)) for axis in axes] == [2, 2], "the longest runs"
    assert axes[1].get_xlabel() == "training time, s"


@pytest.mark.parametrize(("seconds", "unit"), [(100, "s"), (119, "minutes"), (7100, "minutes"), (7200, "hours")])
def test_times_have_a_unit_that_suits_them(drawn, seconds, unit):
    axes = drawn("accuracy", record("a", epochs=1, seconds=float(seconds) + (0.5 if seconds == 119 else 0)))
    assert axes[1].get_xlabel() == f"training time, {unit}"


def test_curves_are_those_of_the_ends_of_epochs(drawn):
    axes = drawn("curves", streamed(record("a"), evaluation_steps=4))
    assert [list(line.get_ydata()) for line in axes[1].lines] == [[0.75, 0.75]]
