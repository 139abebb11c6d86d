"""Figures of losses and accuracies during training."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.report.figures.data import Data
from trainmark.report.figures.references import draw_references
from trainmark.report.figures.style import (
    TWO_COLUMNS,
    Look,
    add_legend,
    draw_dots,
    log_axis,
    looks,
    new_figure,
    time_unit,
)
from trainmark.tables.curves import WITHIN_EPOCH
from trainmark.tables.tables import by_trainer

LOSSES = {"test_loss": "test loss, nats", "train_loss": "training loss, nats"}

ACCURACIES = {
    "test_accuracy": "test accuracy, %",
    "test_top5_accuracy": "test top-5 accuracy, %",
    "train_accuracy": "training accuracy, %",
}
"""Columns of the table of curves, with the titles of their axes."""

ROW_HEIGHT = 2.1

MOST_POINTS = 100
"""A band has at most twice as many points, so that vector files stay small."""


def draw_loss(data: Data) -> Figure | None:
    """Test loss by epoch and by training time, including compilation; below it the loss on the training images, if it
    was evaluated. Line: median over repeats; band: range over repeats; cross: last finite value of a run that diverged;
    dotted line: mean loss over the training batches. Only the runs with the largest number of epochs are drawn.
    """
    return _draw_progress(data, LOSSES)


def draw_accuracy(data: Data) -> Figure | None:
    """Test accuracy by epoch and by training time, including compilation; below it the top-5 accuracy, if there are
    more than 5 classes, and the accuracy on the training images, if it was evaluated. Line: median over repeats; band:
    range over repeats; cross: last value of a run that diverged. Only the runs with the largest number of epochs are
    drawn.
    """
    return _draw_progress(data, ACCURACIES)


def _draw_progress(data: Data, titles: Mapping[str, str]) -> Figure | None:
    """Draw a row for each of these columns that has values, by epoch and by time; None if none has."""
    longest, styles = data.longest, looks(data.runs)
    curves = data.curves[data.curves["id"].isin(longest["id"])]
    columns = [column for column in titles if curves[column].notna().any()]
    if not columns:
        return None
    unit, seconds = time_unit(curves["training_seconds"].max())
    curves = curves.assign(time=curves["training_seconds"] / seconds)
    figure = new_figure(TWO_COLUMNS, ROW_HEIGHT * len(columns) + 0.2)
    axes = figure.subplots(len(columns), 2, sharex="col", sharey="row", squeeze=False)
    handles: dict[str, Line2D] = {}
    for column, (by_epoch, by_time) in zip(columns, axes, strict=True):
        drawn = []
        for i, (trainer, group) in enumerate(by_trainer(longest)):
            points = curves[curves["id"].isin(group["id"]) & curves[column].notna()]
            diverged = points[points["id"].isin(group[group["status"] == "diverged"]["id"])]
            for axis, abscissa in ((by_epoch, "epochs_trained"), (by_time, "time")):
                drawn += _draw_trainer(axis, points, diverged, (abscissa, column), (styles[trainer], i))
        factor = 1.0 if titles is LOSSES else 100.0
        handles |= {str(one.get_label()): one for one in draw_references(by_epoch, data.references, column, factor)}
        by_epoch.set_ylabel(titles[column])
        if titles is LOSSES and any(value > 0 for value in drawn):
            log_axis(by_epoch, "y", drawn)
    for axis in axes[-1]:
        axis.set_xlim(left=0)  # otherwise a single epoch would have an axis from 0.95 to 1.05
    axes[-1, 0].set_xlabel("epoch")
    axes[-1, 0].xaxis.get_major_locator().set_params(integer=True)
    axes[-1, 1].set_xlabel(f"training time, {unit}")
    add_legend(figure, [style.handle() for style in styles.values()] + list(handles.values()))
    return figure


def _draw_trainer(
    axis: Axes, points: pd.DataFrame, diverged: pd.DataFrame, columns: tuple[str, str], style: tuple[Look, int]
) -> list[float]:
    """Draw the curves of a trainer in an axis; return the values that it shows.

    points: the rows of the table of curves that have a value. diverged: those of runs that diverged.
    columns: those of x and y. style: the trainer's look, and its place among the trainers.
    """
    (abscissa, column), (look, place) = columns, style
    percent = 100 if column in ACCURACIES else 1
    by_epoch = points.groupby("epochs_trained")
    x, values = by_epoch[abscissa].median(), by_epoch[column].agg(["median", "min", "max"]) * percent
    every = max(1, len(x) // 8)
    axis.plot(x, values["median"], markevery=(place % every, every), **look.line() | look.dots())
    thinned = slice(None, None, 1 + len(x) // MOST_POINTS)
    axis.fill_between(x[thinned], values["min"][thinned], values["max"][thinned], color=look.colour, alpha=0.15, lw=0)
    last = diverged.groupby("id").last()
    draw_dots(axis, last[abscissa], last[column] * percent, marker="x", color=look.colour, markersize=7)
    drawn = list(values.to_numpy(float).ravel())
    if column == "test_loss" and abscissa == "epochs_trained":
        batch_loss = points[points["part"] != WITHIN_EPOCH].groupby("epochs_trained")
        losses = batch_loss["batch_loss"].median()
        axis.plot(losses.index, losses, color=look.colour, linestyle=":", linewidth=look.width / 2)
        drawn += list(losses)
    return drawn
