"""Figures with rows: phases, break-evens, times to accuracy, and the steps of tunings. Lengths are in inches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import COLOURS, GREY, Look
from trainmark.report.figures.text import short_name, wrapped
from trainmark.tables.formatting import DISTURBED_MARK, DISTURBED_NOTE, counted, three_digits
from trainmark.tables.frames import groups, rows_of, select_trainer
from trainmark.tables.tuning import STEP, TAKEN
from trainmark.trainer import TRAINER, Trainer

AREAS = {
    "start and import": (("start", "import"), "#DDDDDD"),
    "data": (("data_load", "transfer"), "#00664A"),
    "build and compilation": (("build", "compilation"), "#F5BE5B"),
    "first epoch": (("warm_up",), "#9E3A00"),
    "steady epochs": (("steady",), "#8CC9F0"),
    "evaluation": (("evaluation",), "#803C68"),
    "other": (("checkpoint", "other"), "#FFFFFF"),
}
"""The areas of a bar: their phases and colours, which are light and dark in turn, so that they differ in grey, too. No
bar contains waiting for the device and the measurement of the peak, which trains nothing."""

EDGE: dict[str, Any] = {"edgecolor": "#222222", "linewidth": 0.3}
"""The edge of an area, which shows light ones on white."""

TIMES = {
    "training_seconds": (Look("training time", COLOURS[0], "o"), -0.18),
    "wall_seconds": (Look("wall time", COLOURS[3], "s"), 0.18),
}
"""For each time that has a break-even, how it is drawn and where in its row."""

FADED = "#8c8c8c"
"""Colour of what is outside the measured numbers of epochs; lighter ones would be hard to see."""

SHADE: dict[str, Any] = {"facecolor": "#ececec", "edgecolor": GREY, "linewidth": 0.5, "zorder": 0}
"""How the measured numbers of epochs are drawn."""


def draw_phases(data: Data) -> Figure | None:
    """Where the wall time goes: median of each phase by trainer and number of epochs. Bars: range of the wall time over
    repeats.

    Waiting for the device and the measurement of the peak are left out. Disturbed runs are left out, too, unless all
    runs of a median were disturbed; then a hollow mark stands at the end of the bar. Of many numbers of epochs, a
    figure of one column shows 2, and a wider one 4.
    """
    rows = data.section.rows("median").dropna(subset="value")
    rows = rows[rows["metric"].str.startswith("phases.") | (rows["metric"] == "working_seconds")]
    if rows.empty:
        return None
    width, settings = data.width(2), np.array(sorted(rows["epochs"].unique()))
    panels = np.linspace(0, len(settings) - 1, 4 if width > 4.5 else 2).round().astype(int)
    settings = settings[sorted({*panels})]
    trainers = [trainer for trainer in data.looks if len(select_trainer(rows, trainer))]
    names = [short_name(trainer.name) for trainer in trainers]
    figure, axes = scales.rows_figure(names, width, 0.3 * width, 0.8, columns=len(settings))
    for axis, epochs in zip(axes, settings, strict=True):
        _draw_stacks(axis, rows[rows["epochs"] == epochs], trainers, 0.65 * width / len(settings))
        axis.set_title(counted(epochs, "epoch"))
    areas = [Patch(label=name, facecolor=colour, **EDGE) for name, (_, colour) in AREAS.items()]
    legend.add(figure, [*areas, *legend.of_hollow(legend.OF_DISTURBED, rows["disturbed_times"])])
    return figure


def draw_break_even(data: Data) -> Figure | None:
    """From how many epochs on is another trainer faster? In the row "A → B", A is faster with fewer epochs and B with
    more. Bars: 95 % interval; an arrow: it has no upper end; a hollow mark has too few pairs for one. Shaded: the
    numbers of epochs that were trained; marks outside are extrapolated, and grey.

    Wall time also includes the start of the process, loading and evaluation. Pairs of which one is always faster are
    left out.
    """
    rows = data.section.rows("break_even").dropna(subset="value")
    if rows.empty:
        return None
    after = pd.Series([Trainer.of(row).name for row in rows.to_dict("records")], rows.index)
    low, high = measured = float(data.runs["epochs"].min()), float(data.runs["epochs"].max())
    rows["pair"] = rows["compared_with"].map(short_name) + " → " + after.map(short_name)
    rows["is_outside"] = ~rows["value"].between(low, high)
    pairs, width = rows.sort_values(["is_outside", "value"], kind="stable")["pair"].unique().tolist(), data.width(1)
    figure, (axis,) = scales.rows_figure(pairs, width, 0.42 * width, 0.85, least=0.24)
    shown = pairs[: len(axis.get_yticks())]
    rows = rows[rows["pair"].isin(shown)]
    axis.axvspan(*(measured if low < high else (low / 1.05, high * 1.05)), **SHADE)  # one number has some width
    numbers = marks.of_rows(rows)
    end = 1.5 * max(high, *numbers[np.isfinite(numbers)])
    axis.update_datalim([(end, 0.0)])
    for (metric, is_outside), own in groups(rows, ["metric", "is_outside"]):
        look, shift = TIMES[metric]
        places = np.array([shown.index(pair) + shift for pair in own["pair"]])
        look = replace(look, colour=FADED) if is_outside else look
        marks.with_bars(axis, places, marks.of_rows(own), look, "x", end)
    scales.log_axis(axis, "x", 0.55 * width)
    axis.set_xlabel(wrapped("number of epochs at which both take as long", 0.55 * width))
    axis.text(0, 1.01, "faster before → after ", ha="right", va="bottom", transform=axis.transAxes)
    metrics, outside = set(rows["metric"]), Look("extrapolated", FADED, "o")
    times = [legend.of_look(look, thin=True) for metric, (look, _) in TIMES.items() if metric in metrics]
    extrapolated = [legend.of_look(outside, thin=True)] if rows["is_outside"].any() else []
    measured_epochs, hollow = Patch(label="measured numbers of epochs", **SHADE), rows["low"].isna()
    legend.add(figure, [*times, measured_epochs, *extrapolated, *legend.of_hollow(legend.TOO_FEW, hollow)])
    return figure


def draw_time_to_accuracy(data: Data) -> Figure | None:
    """Training time until the target accuracy was reached, the fastest trainer first. Mark: median; bar: its 95 %
    interval; an arrow: it has no upper end; a hollow mark has too few runs for one. In brackets: how many runs
    reached the target; trainers that never did are last.

    In the median, a run that did not reach the target counts as longer (Kaplan and Meier). Disturbed runs enter it
    only if all runs were disturbed.
    """
    reached = data.section.rows("reached")[[*TRAINER, "value"]].rename(columns={"value": "reached"})
    rows = data.section.rows("median_time_to_accuracy").merge(reached)
    if rows.empty:
        return None
    rows["never"] = rows["reached"] == 0
    rows, width = rows.sort_values(["never", "value"], kind="stable"), data.width(1)
    of_trainers = [(Trainer.of(row), row) for row in rows.to_dict("records")]
    names = [
        f"{short_name(trainer.name)} ({row['reached']:.0f}/{row['runs']}){DISTURBED_MARK * row['disturbed_times']}"
        for trainer, row in of_trainers
    ]
    figure, (axis,) = scales.rows_figure(names, width, 0.4 * width, 0.6)
    longest = np.max(marks.of_rows(rows), where=np.isfinite(marks.of_rows(rows)), initial=0.0)
    unit, seconds = scales.unit_of("s", longest)
    times, end = marks.of_rows(rows, 1 / seconds), 1.3 * longest / seconds
    for place, (trainer, row) in enumerate(of_trainers):
        marks.with_bars(axis, np.array([place]), times[:, [place]], data.looks[trainer], "x", end)
        if row["never"]:
            axis.text(0.02, place, "never", va="center", color=GREY, transform=axis.get_yaxis_transform(), clip_on=True)
    axis.update_datalim([(end, 0.0)])
    scales.log_axis(axis, "x", 0.55 * width)
    axis.set_xlabel(f"training time ({unit})")
    targets = " and ".join(f"{100 * target:g} %" for target in data.runs["target_accuracy"].dropna().unique())
    axis.set_title(wrapped(f"test accuracy of {targets}", 0.55 * width), loc="left")
    if without := legend.of_hollow("too few runs for an interval", rows["low"].isna() & rows["value"].notna()):
        legend.add(figure, without)
    legend.add_note(figure, DISTURBED_NOTE if rows["disturbed_times"].any() else "")
    return figure


def draw_tuning(data: Data) -> Figure | None:
    """Time per epoch after each step from the stock loop to the tuned loop, as a share of that of the stock loop. Bars:
    95 % interval of what the step changed; a hollow mark is a step that was tried and not taken.

    Each step was timed beside the steps before it, in turn.
    """
    seconds = data.section.rows("epoch_seconds")[[*TRAINER, "metric", "value"]].rename(columns={"value": "seconds"})
    stock = seconds[seconds["metric"] == f"{STEP}stock"].drop(columns="metric").rename(columns={"seconds": "stock"})
    steps = data.section.rows("step_ratio").merge(seconds).merge(stock)
    if steps.empty:
        return None
    trainers, width, is_tried = [Trainer.of(row) for row in rows_of(steps)], data.width(2), steps["verdict"] != TAKEN
    times = zip(trainers, steps["reason"], steps["seconds"], strict=True)
    names = [f"{short_name(trainer.name)}: {step} ({three_digits(time)} s)" for trainer, step, time in times]
    figure, (axis,) = scales.rows_figure(names, width, 0.5 * width, 0.6)
    shares = marks.of_rows(steps) * (steps["seconds"] / steps["stock"] / steps["value"]).to_numpy()
    for place, (trainer, hollow) in enumerate(zip(trainers, is_tried, strict=True)):
        marks.bars(axis, [place], shares[:, [place]], data.looks[trainer].colour, along="x")
        marks.dots(axis, shares[0, place], place, **data.looks[trainer].dots(hollow))
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlim(left=0)
    axis.set_xlabel("time per epoch (stock loop: 1)")
    if any(is_tried):
        legend.add(figure, legend.of_hollow("tried and not taken", is_tried))
    return figure


def _draw_stacks(axis: Axes, rows: pd.DataFrame, trainers: list[Trainer], width: float) -> None:
    """Draw a row of stacked medians for each trainer. rows: of one number of epochs. width: about the axis's."""
    unit, seconds = scales.unit_of("s", rows["high"][rows["metric"] == "working_seconds"].max())
    for place, trainer in enumerate(trainers):
        own = select_trainer(rows, trainer).set_index("metric")
        left = 0.0
        for phases, colour in AREAS.values():
            length = sum(own["value"].get(f"phases.{phase}", 0.0) for phase in phases) / seconds
            axis.barh(place, length, left=left, height=0.7, facecolor=colour, **EDGE)
            left += length
        wall = own[own.index == "working_seconds"]
        marks.bars(axis, [place] * len(wall), marks.of_rows(wall, 1 / seconds), along="x")
        hollow = wall[wall["disturbed_times"]]
        marks.dots(axis, hollow["value"] / seconds, [place] * len(hollow), **Look("", "black", "o").dots(hollow=True))
    axis.set_xlabel(wrapped(f"wall time without waiting and peak ({unit})", width))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=max(2, int(width / 0.28)), steps=[1, 2, 5, 10]))
