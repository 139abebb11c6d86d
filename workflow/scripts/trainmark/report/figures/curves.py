"""Figures of losses and accuracies during training. Lengths are in inches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.report.figures.axes import draw_dots, log_axis, time_unit, whole_ticks
from trainmark.report.figures.data import Data
from trainmark.report.figures.references import draw_references
from trainmark.report.figures.style import (
    GREY,
    MOST_ENTRIES,
    OF_DISTURBED,
    TWO_COLUMNS,
    Entry,
    Look,
    add_legend,
    hollow_entry,
    looks,
    trainer_entries,
    width_of,
)
from trainmark.report.figures.text import wrapped
from trainmark.tables.tables import are_disturbed, by_trainer, select_trainer, timed_runs
from trainmark.trainer import TRAINER, Trainer

LOSSES = {
    "test_loss": "test loss (nats)",
    "batch_loss": "loss of training batches (nats)",
    "train_loss": "training loss (nats)",
}

ACCURACIES = {
    "test_accuracy": "test accuracy (%)",
    "test_top5_accuracy": "test top-5 accuracy (%)",
    "train_accuracy": "training accuracy (%)",
}
"""Columns of the table of curves, with the titles of their axes."""

TOP_5_CLASSES = 100
"""With fewer classes, or an unknown number, the top-5 accuracy is left out: by chance it is above 5 %."""

ROW_HEIGHT = 1.2

MOST_POINTS = 100
"""A band has at most twice as many points, so that vector files stay small."""


def draw_loss(data: Data) -> Figure | None:
    """Test loss by epoch and by training time. Below it the mean loss of the training batches. At the bottom the loss
    on the training images. Line: median over repeats; band: range over repeats; cross: last finite value of a run
    that diverged.

    Training time includes compilation. Only the runs with the largest number of epochs are drawn; by time, disturbed
    runs are left out unless all of a trainer were.
    """
    return _draw_progress(data, LOSSES)


def draw_accuracy(data: Data) -> Figure | None:
    """Test accuracy by epoch and by training time. Below it the top-5 accuracy. At the bottom the accuracy on the
    training images. Line: median over repeats; band: range over repeats; cross: last value of a run that diverged.

    Training time includes compilation. Only the runs with the largest number of epochs are drawn; by time, disturbed
    runs are left out unless all of a trainer were.
    """
    return _draw_progress(data, ACCURACIES)


@dataclass(frozen=True)
class Panel:
    """An axis with its columns of x and y in the table of curves."""

    axis: Axes
    x: str
    y: str

    def points(self, curves: pd.DataFrame) -> pd.DataFrame:
        """The rows that have a value in this axis."""
        return curves[curves[[self.x, self.y]].notna().all(axis=1)]


def _draw_progress(data: Data, titles: Mapping[str, str]) -> Figure | None:
    """Draw a row for each of these columns that has values, by epoch and by time; None if none has."""
    curves, unit = _curves_of(data)
    classes = data.certificate["settings"]["classes"] if data.certificate else 0
    left_out = {"test_top5_accuracy"} if classes < TOP_5_CLASSES else set()
    left_out |= {"batch_loss"} if curves["batch_loss"].equals(curves["train_loss"]) else set()  # as commands report it
    rows = [name for name in titles if name not in left_out and curves[name].notna().any()]
    if not rows:
        return None
    abscissas = ["epochs_trained", "time"] if curves["time"].notna().any() else ["epochs_trained"]
    width = width_of(data.options, TWO_COLUMNS)
    figure = Figure(figsize=(width, ROW_HEIGHT * len(rows) + 0.3))
    grid = figure.subplots(len(rows), len(abscissas), sharex="col", sharey="row", squeeze=False)
    panels = [
        [Panel(axis, x, y) for x, axis in zip(abscissas, axes, strict=True)] for y, axes in zip(rows, grid, strict=True)
    ]
    handles: dict[str, Line2D] = {}
    factor = 1.0 if titles is LOSSES else 100.0
    for of_row in panels:
        first = of_row[0]
        for panel in of_row:
            _draw_medians(panel, curves, data)
        references = draw_references(first.axis, data.references_by_epoch, first.y, factor)
        handles |= {str(one.get_label()): one for one in references}
        first.axis.set_ylabel(wrapped(titles[first.y], ROW_HEIGHT - 0.1))
        _scale_values(first, curves, is_loss=titles is LOSSES)
    _scale_times(panels[-1], curves, unit)
    for panel in [panel for of_row in panels for panel in of_row]:
        _draw_crosses(panel, curves, data)
    hollow = [hollow_entry(OF_DISTURBED)] if len(abscissas) > 1 and _disturbed(data) else []
    add_legend(figure, [*trainer_entries(looks(data)), *_cross_entry(curves), *hollow, *handles.values()])
    return figure


def _curves_of(data: Data) -> tuple[pd.DataFrame, str]:
    """(the curves of the longest runs in the units of the axes, with trainer and status; the unit of time).

    `time` is missing for the runs whose times enter no median.
    """
    runs = data.longest[data.longest["status"].isin(["ok", "diverged"])]
    timed = pd.concat([timed_runs(runs[runs["status"] == status])["id"] for status in ("ok", "diverged")])
    curves = data.curves.merge(runs[["id", *TRAINER, "status"]], on="id")
    unit, seconds = time_unit(curves["training_seconds"].max())
    percent = {name: curves[name] * 100 for name in ACCURACIES}
    time = (curves["training_seconds"] / seconds).where(curves["id"].isin(timed))
    return curves.assign(time=time, **percent), unit


def _disturbed(data: Data) -> set[Trainer]:
    """The trainers whose times are those of disturbed runs alone."""
    finished = data.longest[data.longest["status"] == "ok"]
    return {trainer for trainer, own in by_trainer(finished) if are_disturbed(own)}


def _draw_medians(panel: Panel, curves: pd.DataFrame, data: Data) -> None:
    """Draw the median and the range over the runs that are ok, for each trainer."""
    finished = panel.points(curves[curves["status"] == "ok"])
    styles, disturbed = looks(data), _disturbed(data)
    for place, (trainer, look) in enumerate(styles.items()):
        by_epoch = select_trainer(finished, trainer).groupby("epochs_trained")
        x, values = by_epoch[panel.x].median(), by_epoch[panel.y].agg(["median", "min", "max"])
        every = max(1, len(x) // 8)
        style = look.line() | look.dots(hollow=panel.x == "time" and trainer in disturbed)
        if len(styles) > MOST_ENTRIES:  # as thick as few ones, many lines would hide each other
            style |= {"linewidth": 0.6 * look.width, "markersize": 3}
        thinned = slice(None, None, 1 + len(x) // MOST_POINTS)
        low, high = values["min"][thinned], values["max"][thinned]
        panel.axis.plot(x, values["median"], markevery=(place % every, every), **style)
        panel.axis.fill_between(x[thinned], low, high, color=look.colour, alpha=0.15, lw=0)


def _scale_values(panel: Panel, curves: pd.DataFrame, *, is_loss: bool) -> None:
    """Scale the y axis of a row by the runs that are ok and the references; by those that diverged if none is ok."""
    drawn = [value for line in panel.axis.lines for value in np.asarray(line.get_ydata(), float)]
    drawn += list(_range(panel, curves)[panel.y])
    if is_loss and any(value > 0 for value in drawn):
        log_axis(panel.axis, "y", drawn)
    elif drawn:
        low, high = np.nanmin(drawn), np.nanmax(drawn)
        margin = 0.05 * (high - low) or 1.0
        panel.axis.set_ylim(low - margin, high + margin)


def _range(panel: Panel, curves: pd.DataFrame) -> pd.DataFrame:
    """The points that set the range of an axis."""
    finished = panel.points(curves[curves["status"] == "ok"])
    return finished if len(finished) else _last_values(panel, curves)


def _scale_times(lowest: list[Panel], curves: pd.DataFrame, unit: str) -> None:
    """Scale and name the x axes. lowest: the panels of the last row."""
    by_epoch, *by_time = lowest
    # otherwise a single epoch would have an axis from 0.95 to 1.05
    drawn = [float(x) for line in by_epoch.axis.lines for x in np.asarray(line.get_xdata())]
    last = max([*_range(by_epoch, curves)["epochs_trained"], *drawn])
    by_epoch.axis.set_xlim(0, 1.03 * last)
    by_epoch.axis.set_xlabel("epoch")
    whole_ticks(by_epoch.axis)
    for panel in by_time:
        times = _range(panel, curves)["time"]
        if (times > 0).any():
            width = panel.axis.figure.get_size_inches()[0] / 2 - 0.5  # type: ignore[union-attr]
            log_axis(panel.axis, "x", times, width)
        panel.axis.set_xlabel(f"training time ({unit})")


def _last_values(panel: Panel, curves: pd.DataFrame) -> pd.DataFrame:
    """The last point of each run that diverged."""
    return panel.points(curves[curves["status"] == "diverged"]).groupby("id").last()


def _draw_crosses(panel: Panel, curves: pd.DataFrame, data: Data) -> None:
    """Draw a cross for each run that diverged, at the edge of the axis if its last value is outside."""
    last = _last_values(panel, curves)
    for trainer, look in looks(data).items():
        points = select_trainer(last, trainer)
        if len(points):  # otherwise the layout would fail
            x = points[panel.x].clip(*panel.axis.get_xlim())
            y = points[panel.y].clip(*panel.axis.get_ylim())
            draw_dots(panel.axis, x, y, clip_on=False, zorder=3, **_cross(look))


def _cross(look: Look) -> dict[str, Any]:
    return {"marker": "x", "color": look.colour, "markersize": 6}


def _cross_entry(curves: pd.DataFrame) -> list[Entry]:
    """The legend's entry of crosses, if there are any."""
    if (curves["status"] != "diverged").all():
        return []
    return [Line2D([], [], linestyle="none", label="diverged", **_cross(Look("", GREY, "x")))]
