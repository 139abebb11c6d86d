"""The figure of published results beside ours. Lengths are in inches."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.report.figures.axes import epoch_axis, log_axis, shifts_of, whole_ticks
from trainmark.report.figures.curves import ACCURACIES, LOSSES
from trainmark.report.figures.data import Data
from trainmark.report.figures.references import draw_references, reference_epochs
from trainmark.report.figures.style import TWO_COLUMNS, add_legend, looks, trainer_entries, width_of
from trainmark.report.figures.text import wrapped
from trainmark.tables.published import REACHED
from trainmark.tables.tables import select_trainer

PANEL_HEIGHT = 1.7

MOST_BARS = 8
"""With more numbers of epochs the axis is linear, and the range is a band alone."""


def draw_published(data: Data) -> Figure | None:
    """Losses and accuracies that others published, and ours after as many epochs. Line: median over repeats; bars and
    band: range over repeats.

    Epochs are counted as the source counts them. Of runs that restart the optimizer: the epochs between two restarts,
    and the median of the numbers at the restarts.
    """
    metrics = [metric for metric in REACHED if (data.published["metric"] == metric).any()]
    if not metrics:
        return None
    width, columns = width_of(data.options, TWO_COLUMNS), min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows + 0.3))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    entries: dict[str, Line2D] = {}
    for axis, metric in zip(axes, metrics, strict=False):
        factor, own = 1.0 if metric in LOSSES else 100.0, data.published[data.published["metric"] == metric]
        epochs = {*own["epochs"], *reference_epochs(data.references, metric)}
        _draw_ours(axis, own, factor, data, has_bars=len(epochs) <= MOST_BARS)
        for one in draw_references(axis, data.references, metric, factor):
            entries.setdefault(str(one.get_label()).partition(" (NaN")[0], one)
        if len(epochs) <= MOST_BARS:
            epoch_axis(axis, epochs, width / columns - 0.5)
        else:
            axis.set_xlabel("number of epochs")
            whole_ticks(axis)
        if metric in LOSSES:
            log_axis(axis, "y", [y for line in axis.lines for y in np.asarray(line.get_ydata(), float)])
        axis.set_ylabel(wrapped((LOSSES | ACCURACIES)[metric], PANEL_HEIGHT - 0.5))
    for axis in axes[len(metrics) :]:
        axis.remove()
    add_legend(figure, [*trainer_entries(looks(data)), *entries.values()])
    return figure


def _draw_ours(axis: Axes, of_metric: pd.DataFrame, factor: float, data: Data, *, has_bars: bool) -> None:
    """Draw the median and the range of each trainer. factor: from the unit of the table to that of the axis."""
    styles = looks(data)
    shifts = shifts_of(len(styles), of_metric["epochs"]) if has_bars else [1.0] * len(styles)
    for (trainer, look), shift in zip(styles.items(), shifts, strict=True):
        own = select_trainer(of_metric, trainer).drop_duplicates("epochs").sort_values("epochs")
        if own["median"].isna().all():
            continue
        low, middle, high = (factor * own[name].to_numpy(float) for name in ("smallest", "median", "largest"))
        x, style = shift * own["epochs"].to_numpy(float), look.line(thin=True) | look.dots(size=4)
        axis.errorbar(x, middle, [middle - low, high - middle] if has_bars else None, **style)
        axis.fill_between(x, low, high, color=look.colour, alpha=0.15, lw=0)
