"""Figures are drawn whatever runs there are; nothing in them overlaps or is cut off; they are the same each time."""

import os
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from unittest import mock

import matplotlib
import numpy as np
import pandas as pd
import plot
import pytest
from figures_for_tests import PUBLISHED, data_of, made_up
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont
from matplotlib.text import Text
from records_for_tests import disturbed, diverged, out_of_memory, record, resealed, streamed

from trainmark.errors import DataError
from trainmark.plan import figures as listed
from trainmark.plan.figures import NOTHING_TO_SHOW, known_figures
from trainmark.records.record import PHASES
from trainmark.report.figures import save, times
from trainmark.report.figures.save import ALL_CENSORED, NO_VALUES, draw_figure, drawing, save_figure
from trainmark.report.figures.style import FONT, ONE_COLUMN, SMALL, STYLE, TWO_COLUMNS, looks, text_width, wrapped
from trainmark.trainer import DEVICES, LOOPS, TRAINER, Trainer

CASES = {
    "more frameworks than colours": [record(f"f{i}", loss=0.1 * (i + 1)) for i in range(8)],
    "one out of memory": [record("a", 1), out_of_memory("a", 2), out_of_memory("b", 1)],
    "one without top-5 accuracy": [streamed(record("a")), record("b")],
    "none trained an epoch": [out_of_memory("a"), out_of_memory("b")],
    "a loss of 0": [record("a", loss=0.0)],
}

LONG = [(f"{letter}-framework-whose-name-has-" + "mw" * 20)[:40] for letter in "abcdefgh"]

CROWDS = {
    "1 trainer": (["chainer"], ["cpu"]),
    "3 trainers": (["chainer", "keras-tensorflow", "keras-jax"], ["cpu"]),
    "8 trainers in two loops": (["chainer", "keras-jax"], ["cpu", "gpu"], ["stock", "tuned"]),
    "4 trainers with long names in two loops": (LONG[:4], ["cpu"], ["tuned"]),
    "8 trainers with long names": (LONG, ["cpu"]),
}
"""Frameworks, devices and loops."""

FORMATS = ("pdf", "svg", "png")


@pytest.fixture(autouse=True)
def _style():
    with matplotlib.rc_context(STYLE):
        yield


@pytest.fixture(scope="session", params=CROWDS.values(), ids=CROWDS)  # of a module, it would be made for each figure
def crowd(request, tmp_path_factory):
    """What figures are drawn from, with so many trainers."""
    return made_up(tmp_path_factory.mktemp("crowd"), *request.param)


@pytest.fixture(scope="module", params=known_figures())
def laid_out(request, crowd):
    """(figure, its texts with their boxes in pixels, the boxes of its axes' frames)."""
    with matplotlib.rc_context(STYLE):
        figure, shows = draw_figure(request.param, crowd)
        figure.set_dpi(100)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        hidden = {id(label) for axis in figure.findobj(matplotlib.axis.Axis) for label in _outside(axis)}
        boxes = [(text, text.get_window_extent(renderer)) for text in texts if id(text) not in hidden]
        return figure, boxes, [axis.get_window_extent(renderer) for axis in figure.axes] if shows else []


def _outside(axis):
    """The labels of ticks outside the limits of an axis, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        if not low <= tick.get_loc() <= high:
            yield from (tick.label1, tick.label2)


def saved(folder, name, data):
    """The content of a figure's file in each format."""
    files = [folder / f"{name}.{kind}" for kind in FORMATS]
    save_figure(name, data, files)
    return [file.read_bytes() for file in files]


@pytest.mark.parametrize("name", known_figures())
@pytest.mark.parametrize("records", CASES.values(), ids=CASES)
def test_figures_are_drawn(tmp_path, name, records):
    file = tmp_path / "figure.svg"
    save_figure(name, data_of(tmp_path, *records), [file])
    assert file.stat().st_size > 1000


def test_each_figure_has_a_caption_and_a_function():
    captions = known_figures()
    assert all(caption.endswith(".") and "\n" not in caption for caption in captions.values())
    assert [drawing(name).__name__ for name in captions] == [f"draw_{name}" for name in captions]
    assert [module.__name__.rpartition(".")[2] for module in save.MODULES] == list(listed.MODULES)


# --- layout -------------------------------------------------------------------------------------------------------


def test_nothing_overlaps_is_cut_off_or_smaller_than_7_points(laid_out):
    figure, texts, frames = laid_out
    canvas = figure.bbox
    assert figure.get_size_inches()[0] in (ONE_COLUMN, TWO_COLUMNS)
    for text, box in texts:
        inside = canvas.x0 <= box.x0 and canvas.y0 <= box.y0 and box.x1 <= canvas.x1 and box.y1 <= canvas.y1
        assert inside, f"{text.get_text()!r} is cut off: {box} in {canvas}"
        assert text.get_fontsize() >= SMALL == 7 and "$" not in text.get_text(), "exponents would be smaller"
        assert not any(frame.padded(-1).overlaps(box) for frame in frames), f"{text.get_text()!r} covers data"
    for (one, first), (other, second) in combinations(texts, 2):
        assert not first.overlaps(second), f"{one.get_text()!r} overlaps {other.get_text()!r}"
    legends = [legend.get_window_extent() for legend in figure.legends]
    assert not any(frame.overlaps(legend) for frame in frames for legend in legends)


def test_every_axis_has_a_title_with_its_unit(laid_out):
    figure, _, _ = laid_out
    units = ("s", "minutes", "hours", "nats", "%", "J", "kJ", "MJ")
    whole = ("epoch", "number of epochs", "number of epochs at which both take as long")
    for axis in figure.axes:
        shared = [axis, *axis.get_shared_x_axes().get_siblings(axis)]
        titles = [next(filter(None, (one.get_xlabel() for one in shared)), "")]
        if not all(tick.get_text() == "" or tick.get_text()[0].isalpha() for tick in axis.get_yticklabels()):
            row = [axis, *axis.get_shared_y_axes().get_siblings(axis)]
            titles.append(next(filter(None, (one.get_ylabel() for one in row)), ""))
        for title in titles:
            assert title in whole or title.endswith(")") or title.rpartition(", ")[2] in units, title


@pytest.mark.parametrize("column", [0, 1, 2])
def test_no_two_trainers_look_alike_in_grey(column):
    trainers = [Trainer(f"f{i:02}", *parts) for i in range(12) for parts in product(DEVICES, LOOPS)]
    styles = looks(pd.DataFrame(trainers, columns=[*TRAINER]).sort_values(TRAINER[column]))
    dots = {(look.colour, look.marker, look.dots().get("fillstyle")) for look in styles.values()}
    assert len(dots) == len(trainers), "dots have no line"
    lines = {(look.colour, look.marker, look.line()["linestyle"]) for look in styles.values()}
    assert len(lines) == len(trainers), "dots of disturbed runs are hollow"
    three = [styles[Trainer(f"f{i:02}", "cpu")] for i in range(3)]
    greys = [np.dot(to_rgb(look.colour), (0.299, 0.587, 0.114)) for look in three]
    assert min(abs(a - b) for a, b in combinations(greys, 2)) > 0.2


def test_every_phase_has_an_area_of_its_own():
    assert list(times.AREAS) == [*(f"phases.{phase}" for phase in PHASES), times.OTHERS]
    assert len(set(times.AREAS.values())) == len(times.AREAS)


@pytest.mark.parametrize("text", ["keras-jax on cpu and chainer on cpu: " * 3, "m" * 40, ""])
@pytest.mark.parametrize("width", [0.5, 1.3])
def test_texts_are_wrapped_to_a_width(text, width):
    lines = wrapped(text, width).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= width for line in lines)


# --- the same files -----------------------------------------------------------------------------------------------

REDRAW = """
import pickle, sys, time, datetime
from pathlib import Path
from trainmark.plan.figures import known_figures
from trainmark.report.figures.save import save_figure
source, folder = sys.argv[1:]
for name in known_figures():
    files = [Path(folder, f"{name}.{kind}") for kind in ("pdf", "svg", "png")]
    save_figure(name, pickle.loads(Path(source).read_bytes()), files)
"""


def test_all_figures_are_drawn_whatever_the_number_of_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "save_figures", lambda data, folder, names: [(folder / name).touch() for name in names])
    for processes in (1, 2, 3):
        folder = tmp_path / str(processes)
        folder.mkdir()
        plot.draw(None, folder, processes)
        assert {file.name for file in folder.iterdir()} == set(known_figures())


@pytest.mark.parametrize("failing", [0, 1])
def test_a_process_that_fails_to_draw_fails_the_job(tmp_path, monkeypatch, failing):
    def save_figures(data, folder, names):
        if list(known_figures())[failing] in names:
            raise DataError("it can't be drawn")

    monkeypatch.setattr(plot, "save_figures", save_figures)
    with pytest.raises((SystemExit, DataError)):
        plot.draw(None, tmp_path, 2)


@pytest.mark.slow
def test_figures_are_the_same_each_time_on_any_day_in_any_folder(tmp_path, monkeypatch):
    """Drawn by another process, whose hashes, time zone and matplotlibrc differ, and whose clock is years ahead."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    data = made_up(tmp_path, ["chainer", "keras-jax"])
    source, other = tmp_path / "data.pickle", tmp_path / "another folder"
    pd.to_pickle(data, source, compression=None)
    other.mkdir()
    (other / "matplotlibrc").write_text("font.size: 20\naxes.facecolor: red\nsvg.fonttype: none\n")
    (other / "sitecustomize.py").write_text("import time\nnow = time.time\ntime.time = lambda: now() + 1e8\n")
    scripts = Path(save.__file__).parents[3]
    paths = os.pathsep.join(map(str, (scripts, other)))
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LANG": "C", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", REDRAW, source, other], cwd=other, env=environment, check=True)
    for name in known_figures():
        assert saved(tmp_path, name, data) == [(other / f"{name}.{kind}").read_bytes() for kind in FORMATS], name


def test_the_font_is_that_of_matplotlib():
    assert Path(findfont(FONT)).is_relative_to(matplotlib.get_data_path())


def test_thousands_of_runs_give_small_files(tmp_path):
    data = made_up(tmp_path, ["chainer", "keras-jax"], settings=(2, 4))
    runs = pd.concat([data.runs.assign(id=data.runs["id"] + str(i)) for i in range(400)], ignore_index=True)
    many = type(data)(**{**vars(data), "runs": runs})
    small, large = ([len(content) for content in saved(tmp_path, "training_time", one)] for one in (data, many))
    assert all(b < a + 100_000 for a, b in zip(small, large, strict=True)), (small, large)


# --- notes, and figures that show nothing -------------------------------------------------------------------------


def test_a_note_is_not_parsed_as_mathematics(tmp_path):
    note = r"$5 and $6_a, $\nosuch{$ and a_b^c"
    data = data_of(tmp_path, record("a"))
    with mock.patch.object(save, "parity_note", lambda comparisons: note):
        saved(tmp_path, "loss", data)
        figure, _ = draw_figure("loss", data)
    assert figure.get_supxlabel() == note


def test_a_note_names_what_must_not_be_ranked(tmp_path):
    parities = {("a on cpu", "b on cpu"): "different"}
    figure, _ = draw_figure("loss", data_of(tmp_path, record("a"), record("b"), parities=parities))
    assert figure.get_supxlabel() == "Not to be ranked:\na on cpu and b on cpu: they are <different>"


def test_a_figure_says_if_all_runs_were_censored(tmp_path):
    data = data_of(tmp_path, diverged("a"), out_of_memory("b"))
    for name in known_figures():
        figure, shows = draw_figure(name, data)
        if name in ("accuracy", "parity"):
            assert shows, "a diverged run has an accuracy, and its trainer a certificate"
        else:
            assert (figure.get_supxlabel(), shows) == (ALL_CENSORED, False)


@pytest.mark.parametrize("name", ["speed_up", "break_even", "time_to_accuracy", "energy", "parity"])
def test_a_figure_without_values_says_so_in_its_metadata(tmp_path, name):
    data = data_of(tmp_path, record("a"))
    figure, shows = draw_figure(name, data)
    assert (figure.get_supxlabel().replace("\n", " "), shows) == (NO_VALUES, False)
    _, svg, _ = saved(tmp_path, name, data)
    assert f"<dc:description>{NOTHING_TO_SHOW}</dc:description>".encode() in svg
    assert NOTHING_TO_SHOW.encode() not in saved(tmp_path, "loss", data)[1]


# --- published results --------------------------------------------------------------------------------------------


def texts_of(legends):
    return [text.get_text().replace("\n", " ") for legend in legends for text in legend.get_texts()]


def test_published_results_are_drawn_where_they_have_values_and_named_in_the_note(tmp_path):
    data = data_of(tmp_path, record("a"), references=PUBLISHED)
    figure, _ = draw_figure("loss", data)
    old = "published: an old framework on an old GPU"
    assert texts_of(figure.legends) == ["a on cpu", f"{old} (NaN at 10 epochs)"]
    note = figure.get_supxlabel().replace("\n", " ")
    about = "an old framework on an old GPU: a GPU, 2017; a log; median of 10"
    assert note == f"Published results, on other hardware: {about}."
    (line,) = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    assert next(zip(*line.get_data(), strict=True)) == (2, 0.4) and np.isnan(line.get_ydata()[1])
    figure, _ = draw_figure("training_time", data)
    assert texts_of(figure.legends) == ["a on cpu", old, "published: another framework"]
    assert "another framework: a CPU, year not stated; a table" in figure.get_supxlabel().replace("\n", " ")
    figure, _ = draw_figure("phases", data)
    assert "Published" not in figure.get_supxlabel()


# --- what is drawn ------------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(tmp_path):
    """A function that draws a figure of these records and returns its axes."""

    def draw(name, *records):
        return drawing(name)(data_of(tmp_path, *records)).axes

    return draw


def test_dots_of_one_number_of_epochs_are_close_together(drawn):
    (axis,) = drawn("training_time", *(record(framework, 1) for framework in "abc"))
    places = np.log([float(place) for line in axis.lines for place in line.get_xdata()])
    assert np.ptp(places) < 0.2 * np.ptp(np.log(axis.get_xlim()))


def test_training_times_are_those_of_the_runs_that_are_ok(drawn):
    (axis,) = drawn("training_time", record("a", 1, seconds=1.0), diverged("a", 2, seconds=7.0), out_of_memory("a", 3))
    times = {float(value) for line in axis.lines for value in line.get_ydata()}
    assert times == {2.5}


def lines_of(axis):
    """The numbers of epochs that each line of an axis joins; dots and ends of bars are left out."""
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
    hollow = [line.get_ydata() for line in axis.lines if line.get_markerfacecolor() == "white"]
    assert [list(seconds) for seconds in hollow] == [[14.5]]


def test_a_diverged_run_has_a_cross_at_its_last_finite_value(drawn):
    stopped = record("a", 2, epochs=3)
    stopped |= {"status": "diverged", "diverged": {"kind": "nan", "epoch": 3, "step": 30, "last_finite_loss": 0.5}}
    stopped["curves"][2]["evaluations"]["test"]["loss"] = stopped["result"]["test_loss"] = "NaN"
    stopped["weights"] = None
    axes = drawn("loss", record("a", 1, epochs=3), resealed(stopped), out_of_memory("a", 3, epochs=3))
    crosses = [line for line in axes[0].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [([2], [0.5])]


def points_of(axis, place=0):
    """The points of a line of an axis."""
    lines = [line for line in axis.lines if line.get_marker() not in ("x", "None", "|", "_")]
    return list(zip(*lines[place].get_data(), strict=True))


def test_accuracy_is_drawn_by_epoch_and_by_time_and_the_top_5_below(drawn):
    axes = drawn("accuracy", streamed(record("a", seconds=3600.0), evaluation_steps=6), streamed(record("b"), 0.0, 0.8))
    assert [axis.get_ylabel() for axis in axes] == ["test accuracy, %", "", "test top-5 accuracy, %", ""]
    assert [axis.get_xlabel() for axis in axes] == ["", "", "epoch", "training time, hours"]
    assert points_of(axes[0]) == [(0.5, 50), (1, 75), (1.5, 50), (2, 75)]
    first_step = 0.5 / 3600
    hours = [(0.5, 90), (1, 90), (1.5, 90), (2, 90)]
    assert points_of(axes[3]) == [(pytest.approx(time + first_step), value) for time, value in hours]
    assert {value for _, value in points_of(axes[2], 1)} == {80}


def test_curves_are_medians_with_the_range_over_repeats(drawn):
    records = [record("a", repeat, loss=loss) for repeat, loss in enumerate((0.2, 0.3, 0.7), 1)]
    axes = drawn("loss", *records, record("a", 1, epochs=1, loss=9.0))
    assert len(axes) == 2, "no loss on the training images"
    assert points_of(axes[0]) == [(1, 0.3), (2, 0.3)], "the longest runs"
    (band,) = axes[0].collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == (0.2, 0.7)


def test_a_single_epoch_has_an_axis_of_whole_epochs(drawn):
    axes = drawn("loss", record("a", epochs=1))
    low, high = axes[0].get_xlim()
    assert low == 0 and [tick for tick in axes[0].get_xticks() if tick <= high] == [0, 1]


@pytest.mark.parametrize(("seconds", "unit"), [(100, "s"), (119, "minutes"), (7100, "minutes"), (7200, "hours")])
def test_times_have_a_unit_that_suits_them(drawn, seconds, unit):
    axes = drawn("accuracy", record("a", epochs=1, seconds=float(seconds) + (0.5 if seconds == 119 else 0)))
    assert axes[1].get_xlabel() == f"training time, {unit}"


@pytest.mark.parametrize("seconds", [0.25, 20.0])
def test_phases_sum_to_the_wall_time_and_short_ones_are_added_up(drawn, seconds):
    one = record("a", seconds=seconds)
    (axis,) = drawn("phases", one)
    ends = [bar.get_x() + bar.get_width() for bar in axis.patches]
    assert max(ends) == pytest.approx(one["wall_seconds"])
    long = [phase for phase, taken in one["phases_seconds"].items() if taken >= 0.01 * one["wall_seconds"]]
    assert len(axis.patches) == len(long) + (len(long) < len(one["phases_seconds"]))


def test_speed_ups_have_the_numbers_of_their_table(tmp_path):
    data = made_up(tmp_path, ["a", "b"], settings=(2, 10))
    (axis,) = drawing("speed_up")(data).axes
    assert "a on cpu" in axis.get_title("left")
    assert points_of(axis) == [(2, pytest.approx(1.5 * 2**0.1)), (10, pytest.approx(1.5 * 10**0.1))]
    (bars,) = [collection.get_segments() for collection in axis.collections]
    assert [end[1] for end in bars[1]] == pytest.approx([1.5 * 10**0.1 / 1.2, 1.5 * 10**0.1 * 1.15])


def test_a_break_even_names_who_is_faster_before_and_beyond(tmp_path):
    data = made_up(tmp_path, ["a", "b"], repeats=1)
    (axis,) = drawing("break_even")(data).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["A, then B"]
    assert [value for value, _ in points_of(axis)] == [4.0]
    swapped = data.break_even.assign(faster_after="a on cpu")
    (axis,) = drawing("break_even")(type(data)(**{**vars(data), "break_even": swapped})).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["B, then A"]


def test_time_to_accuracy_says_how_many_runs_reached_the_target(tmp_path):
    data = made_up(tmp_path, ["a", "b", "c", "d"], repeats=1, settings=(2,))
    (axis,) = drawing("time_to_accuracy")(data).axes
    rows = [label.get_text().replace("\n", " ") for label in axis.get_yticklabels()]
    assert rows == ["a on cpu (3/3)", "b on cpu (2/3)", "c on cpu (1/3)", "d on cpu (0/3)"]
    assert axis.get_title("left") == "test accuracy of 97 %"
    arrows = [line for line in axis.lines if line.get_marker() == ">" and line.get_ydata()[0] == 1]
    assert arrows, "an interval without upper end"


def test_differences_are_drawn_in_the_range_of_their_class(tmp_path):
    parities = {("a on cpu", "b on cpu"): "bitwise", ("a on cpu", "c on cpu"): "single"}
    data = data_of(tmp_path, *(record(name) for name in "abc"), parities=parities)
    (axis,) = drawing("parity")(data).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["A, B: bitwise", "A, C: single", "B, C: rounding"]
    assert [x for x, _ in points_of(axis)] == [1e-18, 2e-7, 2e-14]
