"""Figures of losses and accuracies during training. Lengths are in inches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import GREY, MOST_ENTRIES, Looks
from trainmark.report.figures.text import wrapped
from trainmark.tables.frames import groups, longest_runs, select_trainer, timed_runs
from trainmark.trainer import TRAINER

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

ROW_HEIGHT = 1.2

CROSS: dict[str, Any] = {"marker": "x", "markersize": 6}


def draw_loss(data: Data) -> Figure | None:
    """Test loss by epoch and by training time; below it, where they were measured, the mean loss of the training
    batches and the loss on the training images. Line: median over repeats; band: range over repeats; cross: last
    finite value of a run that diverged.

    Training time includes compilation. Only the runs with the largest number of epochs are drawn; by time, disturbed
    runs are left out unless all of a trainer were.
    """
    return _draw_progress(data, LOSSES, 1.0)


def draw_accuracy(data: Data) -> Figure | None:
    """Test accuracy by epoch and by training time; below it, where they were measured, the top-5 accuracy and the
    accuracy on the training images. Line: median over repeats; band: range over repeats; cross: last value of a run
    that diverged.

    Training time includes compilation. Only the runs with the largest number of epochs are drawn; by time, disturbed
    runs are left out unless all of a trainer were.
    """
    return _draw_progress(data, ACCURACIES, 100.0)


def _draw_progress(data: Data, titles: Mapping[str, str], factor: float) -> Figure | None:
    """Draw a row for each of these columns that has values, by epoch and by time; None if none has.

    factor: from the unit of the curves to that of the axes.
    """
    curves, unit = _curves_of(data)
    certificate = data.section.certificate
    has_many = certificate and certificate["settings"]["classes"] >= 100  # else it is above 5 % by chance
    left_out = set() if has_many else {"test_top5_accuracy"}
    left_out |= {"batch_loss"} if curves["batch_loss"].equals(curves["train_loss"]) else set()  # as commands report it
    rows = [name for name in titles if name not in left_out and curves[name].notna().any()]
    if not rows:
        return None
    curves[rows] *= factor
    finished, diverged = (curves[curves["status"] == status] for status in ("ok", "diverged"))
    abscissas = {"epochs_trained": "epoch", "time": f"training time ({unit})"}
    columns = [name for name in abscissas if curves[name].notna().any()]
    figure = Figure(figsize=(data.width(2), ROW_HEIGHT * len(rows) + 0.3))
    axes = figure.subplots(len(rows), len(columns), sharex="col", sharey="row", squeeze=False)
    panels = [(axis, columns[column], rows[row]) for (row, column), axis in np.ndenumerate(axes)]
    references: dict[str, Line2D] = {}
    for axis, x, y in panels:
        _draw_medians(axis, finished.dropna(subset=[x, y]), x, y, data.looks)
        shown = finished if finished[[x, y]].notna().all(axis=1).any() else _last_points(diverged, x, y)
        axis.update_datalim(shown[[x, y]].to_numpy(float))
        if x == columns[0]:
            marks.references(axis, data.references_by_epoch, y, factor, references)
            axis.set_ylabel(wrapped(titles[y], ROW_HEIGHT - 0.1))
        _scale(axis, x, is_loss=titles is LOSSES)
        axis.set_xlabel(abscissas[x] if y == rows[-1] else "")
    for axis, x, y in panels:
        _draw_crosses(axis, _last_points(diverged, x, y), x, y, data.looks)
    disturbed = finished["disturbed"][finished["time"].notna()] != ""
    cross = [legend.entry("diverged", color=GREY, **CROSS)] if len(diverged) else []
    others = [*cross, *legend.of_hollow(legend.OF_DISTURBED, disturbed), *references.values()]
    legend.add(figure, [*legend.of_trainers(data.looks), *others])
    return figure


def _curves_of(data: Data) -> tuple[pd.DataFrame, str]:
    """(the curves of the longest runs, with columns of the runs and `time`, the unit of `time`).

    Numbers that are not finite are missing, and `time` of the runs whose times enter no median.
    """
    runs = longest_runs(data.runs)
    timed = {run_id for _, own in groups(runs, ["status"]) for run_id in timed_runs(own)["id"]}
    runs = runs[runs["status"].isin(["ok", "diverged"])]
    curves = data.curves.merge(runs[["id", *TRAINER, "status", "disturbed"]], on="id").replace(
        [np.inf, -np.inf], np.nan
    )
    unit, seconds = scales.unit_of("s", curves["training_seconds"].max())
    return curves.assign(time=(curves["training_seconds"] / seconds).where(curves["id"].isin(timed))), unit


def _last_points(curves: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """The last point of each run that has both coordinates."""
    return curves.dropna(subset=[x, y]).groupby("id").last()


def _draw_medians(axis: Axes, curves: pd.DataFrame, x: str, y: str, styles: Looks) -> None:
    """Draw the median and the range over runs, for each trainer. Times of disturbed runs are hollow."""
    for place, (trainer, look) in enumerate(styles.items()):
        points = select_trainer(curves, trainer)
        by_epoch = points.groupby("epochs_trained")
        middle, values = by_epoch[x].median(), by_epoch[y].agg(["median", "min", "max"])
        every = max(1, len(middle) // 8)
        style = look.line() | look.dots(hollow=x == "time" and bool((points["disturbed"] != "").any()))
        if len(styles) > MOST_ENTRIES:  # as thick as few ones, many lines would hide each other
            style |= {"linewidth": 0.6 * look.width, "markersize": 3}
        thinned = 1 + len(middle) // 100  # so that vector files stay small
        marks.band(axis, middle, values.T, look.colour, thinned, markevery=(place % every, every), **style)


def _scale(axis: Axes, x: str, *, is_loss: bool) -> None:
    """Scale an axis by what it shows."""
    if x == "time":
        scales.log_axis(axis, "x", axis.figure.get_size_inches()[0] / 2 - 0.5)  # type: ignore[union-attr]
        return
    axis.set_xlim(0, 1.03 * axis.dataLim.xmax)  # otherwise a single epoch would have an axis from 0.95 to 1.05
    axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    low, high = axis.dataLim.intervaly
    margin = 0.05 * (high - low) or 1.0
    axis.set_ylim(low - margin, high + margin)
    if is_loss:
        scales.log_axis(axis, "y")


def _draw_crosses(axis: Axes, last: pd.DataFrame, x: str, y: str, styles: Looks) -> None:
    """Draw a cross at these points, or at the edge of the axis beside a point that is outside."""
    for trainer, look in styles.items():
        points = select_trainer(last, trainer)
        inside = points[x].clip(*axis.get_xlim()), points[y].clip(*axis.get_ylim())
        marks.dots(axis, *inside, clip_on=False, zorder=3, color=look.colour, **CROSS)
