"""Figures are drawn whatever runs there are; nothing in them overlaps or is cut off; they are the same each time."""

import re
from dataclasses import replace
from itertools import combinations, pairwise, product

import matplotlib
import numpy as np
import pytest
from figure_layouts import TRAINERS, contrast, measured_layout
from figures_for_tests import PUBLISHED, data_of, made_up, with_rows
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.t2CharStringPen import T2CharStringPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.colors import to_rgb
from matplotlib.font_manager import fontManager
from records_for_tests import disturbed, diverged, evaluated, out_of_memory, record, resealed, streamed

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks
from trainmark.plan import figures as listed
from trainmark.plan.figures import known_figures
from trainmark.records.record import PHASES
from trainmark.records.result import result
from trainmark.report.figures import rows, save, style
from trainmark.report.figures.legend import of_look
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.save import ALL_CENSORED, NO_VALUES, draw_figure, drawing
from trainmark.report.figures.style import COLOURS, looks_of, settings
from trainmark.report.figures.text import text_width, wrapped
from trainmark.trainer import DEVICES, LOOPS, Trainer

SEVERAL = [(device, "stock", workers) for device in DEVICES for workers in (2, 4, 8)]
"""Devices, loops and numbers of workers of trainers with several workers: these have the stock loop."""

KNOWN = [
    Trainer(framework, *parts)
    for framework in known_frameworks()
    for parts in [*product(DEVICES, LOOPS), *SEVERAL, ("cpu", "stock", 4096)]
]
"""Trainers of all parts that the schema allows; of numbers of workers some."""

CASES = {
    "more frameworks than colours": [record(f"f{i}", loss=0.1 * (i + 1)) for i in range(8)],
    "one out of memory": [record("a", 1), out_of_memory("a", 2), out_of_memory("b", 1)],
    "none trained an epoch": [out_of_memory("a"), out_of_memory("b")],
    "a loss of 0": [record("a", loss=0.0)],
}

LAYOUTS = [(2, 183, "report"), (6, 89, "plain"), (12, 89, "report")]
"""Number of trainers, width in mm, and style."""


@pytest.fixture(autouse=True)
def _style():
    with matplotlib.rc_context(settings(FigureOptions())):
        yield


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: "-".join(map(str, layout)))
def crowd(request, tmp_path_factory):
    """What figures are drawn from, with so many trainers in this width and style."""
    trainers, width, style = request.param
    data = made_up(tmp_path_factory.mktemp("crowd"), *TRAINERS[trainers], repeats=2)
    return replace(data, options=FigureOptions(width_mm=width, style=style))


@pytest.mark.parametrize("records", CASES.values(), ids=CASES)
def test_figures_are_drawn(tmp_path, records):
    data = data_of(tmp_path, *records)
    for name in known_figures():
        assert save.laid_out(name, data).figure.get_size_inches().all()


def test_each_figure_has_a_caption_and_a_function():
    captions = known_figures()
    assert all(part.endswith(".") and "\n" not in part for caption in captions.values() for part in caption)
    assert [drawing(name).__name__ for name in captions] == [f"draw_{name}" for name in captions]
    assert [module.__name__.rpartition(".")[2] for module in save.MODULES] == list(listed.MODULES)


# --- layout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", known_figures())
def test_nothing_overlaps_or_is_too_small_or_too_high_and_axes_have_units(crowd, name):
    with matplotlib.rc_context(settings(crowd.options)):
        figure, shows = draw_figure(name, crowd)
        if not shows:
            pytest.skip("nothing to show")
        found = measured_layout(figure)
    assert found["wrong"] == []
    assert found["width_mm"] == pytest.approx(crowd.options.width_mm) and found["height_mm"] <= 170
    smallest, largest = found["type"]
    assert (smallest >= 7) if crowd.options.style == "report" else (smallest >= 5 and largest <= 7)
    assert not any("$" in text for text in found["texts"]), "exponents would be smaller"
    counts = ("epoch", "number of epochs", "number of epochs at which both take as long")
    for axis in figure.axes:
        shared = [axis, *axis.get_shared_x_axes().get_siblings(axis)]
        titles = [next(filter(None, (one.get_xlabel() for one in shared)), "")]
        if not all(tick.get_text() == "" or re.search("[a-z]", tick.get_text()) for tick in axis.get_yticklabels()):
            row = [axis, *axis.get_shared_y_axes().get_siblings(axis)]
            titles.append(next(filter(None, (one.get_ylabel() for one in row)), ""))
        named = axis.get_xticklabels() and axis.get_xticklabels()[0].get_text() == "A"
        for title in [] if named else titles:
            assert title.replace("\n", " ") in counts or title.endswith(")"), title


# --- style --------------------------------------------------------------------------------------------------------


def grey(colour):
    return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))


def test_no_two_trainers_look_alike_in_grey():
    trainers = [Trainer(f"f{i:02}", *parts) for i in range(12) for parts in [*product(DEVICES, LOOPS), *SEVERAL]]
    styles = looks_of(trainers, trainers)
    dots = {(look.colour, look.marker, look.dots().get("fillstyle")) for look in styles.values()}
    assert len(dots) == len(trainers), "dots have no line"
    lines = {(look.colour, look.marker, look.line()["linestyle"]) for look in styles.values()}
    assert len(lines) == len(trainers), "dots of disturbed runs are hollow"
    without_colour = {
        (one.marker, one.dashes, one.fill) for trainer, one in styles.items() if trainer.framework < "f09"
    }
    assert len(without_colour) == 9 * len(trainers) / 12
    three = [styles[Trainer(f"f{i:02}", "cpu")] for i in range(3)]
    greys = [grey(look.colour) for look in three]
    assert min(abs(a - b) for a, b in combinations(greys, 2)) > 0.2
    assert all(contrast(colour) >= 3 for colour in COLOURS), "on white"


def test_no_pair_of_trainers_is_drawn_alike_in_grey():
    for pair in combinations(KNOWN, 2):
        drawn = [
            (round(grey(line.get_color()), 1), line.get_marker(), line.get_fillstyle(), line._dash_pattern)
            for line in map(of_look, looks_of(pair, pair).values())
        ]
        assert drawn[0] != drawn[1], pair


def test_every_phase_is_in_one_area_or_left_out_and_neighbours_differ_in_grey():
    areas = [phase for of_area, _ in rows.AREAS.values() for phase in of_area]
    assert sorted([*areas, "device_wait", "peak"]) == sorted(PHASES)
    greys = [grey(colour) for _, colour in rows.AREAS.values()]
    assert min(abs(a - b) for a, b in pairwise(greys)) > 0.25


@pytest.mark.parametrize("text", ["keras-jax on cpu and chainer on cpu: " * 3, "m" * 40])
def test_texts_are_wrapped_to_a_width(text):
    with matplotlib.rc_context(settings(FigureOptions(font="DejaVu Sans Mono"))):
        lines = wrapped(text, 1.3).split("\n")
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert all(text_width(line) <= 1.3 for line in lines) and text_width("iii") == text_width("mmm")


def write_font(path, kind):
    """Write a font of one glyph, whose outlines are of a kind: "glyf" (TrueType) or "CFF"."""
    made = FontBuilder(1000, isTTF=kind == "glyf")
    made.setupGlyphOrder([".notdef", "a"])
    made.setupCharacterMap({ord("a"): "a"})
    if kind == "glyf":
        made.setupGlyf({name: TTGlyphPen(None).glyph() for name in (".notdef", "a")})
    else:
        glyphs = {name: T2CharStringPen(500, None).getCharString() for name in (".notdef", "a")}
        made.setupCFF("Own", {}, glyphs, {})
    made.setupHorizontalMetrics({name: (500, 0) for name in (".notdef", "a")})
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": f"Own {kind}", "styleName": "Regular"})
    made.setupOS2()
    made.setupPost()
    made.save(path)


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("glyf", None),
        ("CFF", "Own CFF, has no TrueType outlines"),
        (None, "Own, is not installed.*DejaVu Sans"),
    ],
)
def test_a_font_of_figures_is_installed_and_has_truetype_outlines(tmp_path, monkeypatch, kind, refusal):
    options = FigureOptions(font=f"Own {kind or ''}".strip())
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist])
    if kind:
        write_font(tmp_path / "own.otf", kind)
        fontManager.addfont(tmp_path / "own.otf")
    if not refusal:
        assert settings(options)["font.family"][0] == options.font
        return
    with pytest.raises(ConfigError, match=refusal):
        settings(options)
    if kind:  # the plain style takes the next one
        monkeypatch.setattr(style, "PLAIN_FONTS", (options.font, style.FONT))
        assert settings(FigureOptions(style="plain"))["font.family"][0] == style.FONT


# --- figures that show nothing -------------------------------------------------------------------------


def test_a_figure_says_if_all_runs_were_censored(tmp_path):
    data = data_of(tmp_path, diverged("a"), out_of_memory("b"))
    for name in known_figures():
        figure, shows = draw_figure(name, data)
        if name in ("accuracy", "parity"):
            assert shows, "a diverged run has an accuracy, and its trainer a certificate"
        else:
            assert (figure.get_supxlabel(), shows) == (ALL_CENSORED, False)


def test_a_figure_without_values_says_so(tmp_path):
    data = data_of(tmp_path, record("a"))
    for name in ("speed_up", "break_even", "time_to_accuracy", "energy", "parity"):
        figure, shows = draw_figure(name, data)
        assert (figure.get_supxlabel().replace("\n", " "), shows) == (NO_VALUES, False)


# --- published results --------------------------------------------------------------------------------------------


def texts_of(legends):
    return [text.get_text().replace("\n", " ") for legend in legends for text in legend.get_texts()]


def test_published_results_are_drawn_where_they_have_values(tmp_path):
    data = data_of(tmp_path, record("a"), references=PUBLISHED)
    figure, _ = draw_figure("loss", data)
    old = "published: an old framework on an old GPU"
    assert texts_of(figure.legends) == ["a on cpu", f"{old} (NaN at 10 epochs)"]
    (line,) = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    assert next(zip(*line.get_data(), strict=True)) == (2, 0.4) and np.isnan(line.get_ydata()[1])
    figure, _ = draw_figure("training_time", data)
    assert texts_of(figure.legends) == ["a on cpu", old, "published: another framework"]


# --- what is drawn ------------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(tmp_path):
    """A function that draws a figure of these records and returns its axes."""

    def draw(name, *records):
        return drawing(name)(data_of(tmp_path, *records)).axes

    return draw


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


def test_disturbed_runs_are_hollow_and_in_no_median(drawn):
    hit = disturbed(stopped_seconds=0.5)
    (axis,) = drawn("training_time", record("a", 1, seconds=1.0), record("a", 2, seconds=7.0, changes=hit))
    hollow = [line.get_ydata() for line in axis.lines if line.get_markerfacecolor() == "white"]
    assert [list(seconds) for seconds in hollow] == [[14.5]]
    assert [list(line.get_ydata()) for line in axis.lines if line.get_linestyle() != "None"] == [[2.5]]
    (axis,) = drawn("training_time", record("a", 1, seconds=7.0, changes=hit))
    medians = [line for line in axis.lines if line.get_linestyle() != "None"]
    assert [line.get_markerfacecolor() for line in medians] == ["white"]
    assert [list(line.get_ydata()) for line in axis.lines if line.get_linestyle() != "None"] == [[14.5]], "of all"


def test_no_line_joins_medians_of_quiet_and_of_disturbed_runs(drawn):
    hit = disturbed(stopped_seconds=0.5)
    (axis,) = drawn("training_time", *(record("a", epochs=one, changes=hit if one == 3 else {}) for one in (1, 3, 9)))
    assert sorted(lines_of(axis)) == [[1, 9], [3]]


@pytest.mark.parametrize("name", ["training_time", "phases", "loss", "time_to_accuracy"])
def test_a_median_of_disturbed_runs_is_marked_and_explained(tmp_path, name):
    target, said = {"settings.target_accuracy": 0.5}, []
    for changes in (target, target | disturbed(stopped_seconds=0.5)):
        data = data_of(tmp_path, *(record("a", repeat, changes=changes) for repeat in (1, 2)))
        figure = drawing(name)(data)
        said.append(" ".join([*texts_of(figure.legends), figure.get_supxlabel()]))
    assert "disturbed" in said[1] and "disturbed" not in said[0]


def test_a_ratio_within_bounds_is_named_below_the_figure(tmp_path):
    said = []
    for changes in ({}, disturbed(foreign_seconds=0.12)):
        data = data_of(tmp_path, *(record(name, repeat, changes=changes) for name in "ab" for repeat in range(1, 7)))
        said.append(drawing("speed_up")(data).get_supxlabel().replace("\n", " "))
    assert "b on cpu (2 epochs)" in said[1] and said[0] == ""


def test_a_disturbed_run_counts_by_epoch_and_not_by_time(drawn):
    hit = disturbed(stopped_seconds=0.5)
    good, bad = record("a", 1, loss=0.2), record("a", 2, loss=0.4, changes=hit)
    by_epoch, by_time = drawn("loss", good, bad)[:2]
    assert [y for _, y in points_of(by_epoch)] == pytest.approx([0.3, 0.3])
    assert [y for _, y in points_of(by_time)] == [0.2, 0.2]
    assert [y for _, y in points_of(drawn("loss", bad)[1])] == [0.4, 0.4], "unless all were disturbed"


@pytest.mark.parametrize(("last", "shown"), [(0.35, 0.35), (1e6, 0.48)])
def test_a_diverged_run_is_a_cross_at_its_last_value_and_stretches_no_axis(drawn, last, shown):
    stopped = record("a", 2, epochs=3, loss=last)
    stopped |= {"status": "diverged", "diverged": {"kind": "nan", "epoch": 3, "step": 30, "last_finite_loss": last}}
    stopped["curves"][2]["evaluations"]["test"]["loss"] = stopped["result"]["test_loss"] = "NaN"
    stopped["weights"] = None
    good = record("a", 1, epochs=3, loss=0.3)
    axes = drawn("loss", good, resealed(stopped), out_of_memory("a", 3, epochs=3))
    crosses = [line for line in axes[0].lines if line.get_marker() == "x"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [([2], [pytest.approx(shown)])]
    assert {y for _, y in points_of(axes[0])} == {0.3}, "it enters no median"
    assert axes[0].get_ylim() == drawn("loss", good)[0].get_ylim()


def points_of(axis, place=0):
    """The points of a line of an axis."""
    lines = [line for line in axis.lines if line.get_marker() not in ("x", "None", "|", "_")]
    return list(zip(*lines[place].get_data(), strict=True))


def test_accuracy_is_drawn_by_epoch_and_by_time_and_the_top_5_below(tmp_path):
    records = streamed(record("a", seconds=3600.0), evaluation_steps=6), streamed(record("b"), 0.0, 0.8)
    data = data_of(tmp_path, *records)
    assert len(drawing("accuracy")(data).axes) == 2, "there are only 10 classes"
    certificate = data.section.certificate
    many = {**certificate, "settings": {**certificate["settings"], "classes": 1000}}
    axes = drawing("accuracy")(replace(data, section=replace(data.section, certificate=many))).axes
    titles = [axis.get_ylabel().replace("\n", " ") for axis in axes]
    assert titles == ["test accuracy (%)", "", "test top-5 accuracy (%)", ""]
    assert [axis.get_xlabel() for axis in axes] == ["", "", "epoch", "training time (hours)"]
    assert points_of(axes[0]) == [(0.5, 50), (1, 75), (1.5, 50), (2, 75)]
    first_step = 0.5 / 3600
    hours = [(0.5, 90), (1, 90), (1.5, 90), (2, 90)]
    assert points_of(axes[3]) == [(pytest.approx(time + first_step), value) for time, value in hours]
    assert {value for _, value in points_of(axes[2], 1)} == {80}


def test_a_loss_that_a_command_reports_once_has_one_panel(drawn):
    curves = record("a")["curves"]
    for entry in curves:
        entry["evaluations"]["train"] = evaluated(entry["batch_loss"], 0.5)
    axes = drawn("loss", record("a", changes={"curves": curves, "result": result(curves, 0.5, 1438)}))
    assert [axis.get_ylabel().replace("\n", " ") for axis in axes[::2]] == ["test loss (nats)", "training loss (nats)"]


def test_curves_are_medians_with_the_range_over_repeats(drawn):
    records = [record("a", repeat, loss=loss) for repeat, loss in enumerate((0.2, 0.3, 0.7), 1)]
    axes = drawn("loss", *records, record("a", 1, epochs=1, loss=9.0))
    rows = ["test loss (nats)", "loss of training batches (nats)"]
    assert [axis.get_ylabel().replace("\n", " ") for axis in axes[::2]] == rows, "no loss on the training images"
    assert points_of(axes[0]) == [(1, 0.3), (2, 0.3)], "the longest runs"
    (band,) = axes[0].collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == (0.2, 0.7)


def test_phases_sum_to_the_wall_time_without_waiting_and_peak(drawn):
    waiting = {"phases_seconds.device_wait": 50.0, "phases_seconds.peak": 7.0}
    made = record("a")
    waiting["wall_seconds"] = made["wall_seconds"] - 2 * 0.125 + 57
    (axis,) = drawn("phases", record("a", changes=waiting))
    counted = pytest.approx(made["wall_seconds"] - 2 * 0.125)
    assert max(bar.get_x() + bar.get_width() for bar in axis.patches) == counted
    assert [line.get_xdata()[0] for line in axis.lines if len(line.get_xdata())][:1] == [counted], "the range, too"


def test_speed_ups_have_the_numbers_of_their_table(tmp_path):
    data = made_up(tmp_path, ["a", "b"], settings=(2, 10))
    (axis,) = drawing("speed_up")(data).axes
    assert "a on cpu" in axis.get_ylabel()
    assert points_of(axis) == [(10, pytest.approx(1.5 * 10**0.1))]
    assert hollow_of(axis) == [(2, pytest.approx(1.5 * 2**0.1))], "it has no interval"
    (bars,) = [collection.get_segments() for collection in axis.collections]
    assert [end[1] for end in bars[1]] == pytest.approx([1.5 * 10**0.1 / 1.2, 1.5 * 10**0.1 * 1.15])


def hollow_of(axis):
    """The points of hollow marks."""
    lines = [line for line in axis.lines if line.get_markerfacecolor() == "white" and line.get_marker() != "None"]
    return [point for line in lines for point in zip(*line.get_data(), strict=True)]


def rows_of(axis):
    return [label.get_text().replace("\n", " ") for label in axis.get_yticklabels()]


def with_break_evens(data, *changes):
    """The same with break-evens that are the first of its table with these changes."""
    first = data.section.rows("break_even").to_dict("records")[0]
    return with_rows(data, *({**first, **change} for change in changes))


def test_a_break_even_names_who_is_faster_before_and_beyond(tmp_path):
    data = made_up(tmp_path, ["a", "b"], repeats=1)
    (axis,) = drawing("break_even")(data).axes
    assert rows_of(axis) == ["a cpu → b cpu"]
    assert [value for value, _ in points_of(axis)] == [4.0]
    changes = {"framework": "a", "compared_with": "b on cpu"}
    (axis,) = drawing("break_even")(with_break_evens(data, changes)).axes
    assert rows_of(axis) == ["b cpu → a cpu"]


def test_measured_break_evens_come_first_and_extrapolated_ones_are_grey(tmp_path):
    data = made_up(tmp_path, [*"abcdef"], repeats=1, settings=(5, 20))
    changes = [{"framework": name, "value": at} for at, name in ((100.0, "c"), (3.0, "d"), (19.0, "e"), (6.0, "f"))]
    changes[-1] |= {"low": None, "high": None}
    (axis,) = drawing("break_even")(with_break_evens(data, *changes)).axes
    assert rows_of(axis) == [f"a cpu → {name} cpu" for name in "fedc"]
    assert [round(value) for value, _ in hollow_of(axis)] == [6]
    colours = {x: line.get_color() for line in axis.lines for x in line.get_xdata() if line.get_marker() == "o"}
    assert colours[3.0] == colours[100.0] != colours[6.0] == colours[19.0]


def test_rows_that_do_not_fit_a_page_are_counted(tmp_path):
    data = made_up(tmp_path, [f"f{i}" for i in range(9)], repeats=1, settings=(2,))
    figure = drawing("break_even")(data)
    shown, pairs = len(rows_of(figure.axes[0])), 9 * 8 // 2
    assert 0 < shown < pairs and f"and {pairs - shown} more in the tables" in figure.get_supxlabel()


def test_time_to_accuracy_has_the_fastest_first_and_says_how_many_runs_reached_the_target(tmp_path):
    data = made_up(tmp_path, ["a", "b", "c", "d"], repeats=1, settings=(2,))
    times = data.section.rows("median_time_to_accuracy").to_dict("records")
    times[2] |= {"low": None, "high": None}
    (axis,) = drawing("time_to_accuracy")(with_rows(data, *(times[place] for place in (3, 1, 0, 2)))).axes
    assert rows_of(axis) == ["a cpu (3/3)", "b cpu (2/3)", "c cpu (1/3)", "d cpu (0/3)"]
    assert [(text.get_text(), text.get_position()[1]) for text in axis.texts] == [("never", 3)]
    assert axis.get_title("left") == "test accuracy of 97 %"
    arrows = [line for line in axis.lines if line.get_marker() == ">" and line.get_ydata()[0] == 1]
    assert arrows, "an interval without upper end"
    assert hollow_of(axis) == [(4.0, 2)]


def test_a_tuning_has_a_row_for_each_step_and_hollow_marks_for_those_not_taken(tmp_path):
    data = made_up(tmp_path, ["a", "b"], ["cpu", "gpu"], ["stock", "tuned"], repeats=1, settings=(2,))
    numbers = data.section.numbers
    steps = numbers[numbers["statistic"] == "step_ratio"]
    (axis,) = drawing("tuning")(data).axes
    assert [row.partition(":")[0] for row in rows_of(axis)][4:6] == ["a tuned cpu", "a tuned gpu"]
    assert rows_of(axis)[0] == "a tuned cpu: compiled steps without Keras's fit (3.60 s)"
    assert [place for _, place in hollow_of(axis)] == np.flatnonzero(steps["verdict"] == "not taken").tolist()
    assert points_of(axis) == [(steps["value"].iloc[0], 0)], "of the first step, the share of the stock loop"


def test_differences_are_drawn_in_the_range_of_their_class(tmp_path):
    parities = {("a on cpu", "b on cpu"): "bitwise", ("a on cpu", "c on cpu"): "single"}
    data = data_of(tmp_path, *(record(name) for name in "abc"), parities=parities)
    (axis,) = drawing("parity")(data).axes
    assert rows_of(axis) == ["a cpu, c cpu: single", "b cpu, c cpu: rounding", "a cpu, b cpu: bitwise"], (
        "the worst first"
    )
    assert [x for x, _ in points_of(axis)] == [2e-7, 2e-14, 1e-18]
    worse = replace(data.section, parity=data.section.parity.assign(parity="different"))
    assert rows_of(drawing("parity")(replace(data, section=worse)).axes[0])[0] == "a cpu, b cpu: different"
