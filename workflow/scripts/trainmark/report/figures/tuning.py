"""The figure of tunings: what each step from a stock loop to a tuned loop gained. Lengths are in inches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trainmark.report.figures.data import Data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.style import (
    COLOURS,
    MOST_HEIGHT,
    ONE_COLUMN,
    TWO_COLUMNS,
    add_note,
    width_of,
)
from trainmark.report.figures.text import line_height, short_name, text_width, wrapped
from trainmark.tables.formatting import three_digits
from trainmark.tables.tables import by_trainer, rows_of
from trainmark.trainer import STOCK, Trainer

FIRST, LAST = "stock loop", "tuned loop"
"""The first and the last row of every panel."""

BAR, LINE = 0.1, 0.2
"""Height of a bar, and of the line that names what does not fit."""


def draw_tuning(data: Data) -> Figure | None:
    """What each step of the tuning gained: time per epoch from the stock loop to the tuned loop, as a share of that of
    the stock loop. Green: faster; red: slower; white: a number of threads that was tried and not chosen; bars: 95 %
    interval.

    A row of panels for each framework, and a column for each of its devices; above each, the time per epoch of both
    loops. Each step was timed beside the steps before it, in turn.
    """
    tunings, frameworks = dict(by_trainer(data.tuning)), list(dict.fromkeys(data.tuning["framework"]))
    for count in range(len(frameworks), 0, -1):
        shown = {trainer: table for trainer, table in tunings.items() if trainer.framework in frameworks[:count]}
        figure = _draw_tunings(shown, data.options)
        if figure.get_size_inches()[1] <= MOST_HEIGHT - LINE or count == 1:
            left_out = ", ".join(frameworks[count:])
            add_note(figure, [f"and {left_out} in tuning.csv"] if left_out else [])
            return figure
    return None


def _draw_tunings(tunings: Mapping[Trainer, pd.DataFrame], options: FigureOptions) -> Figure:
    """Draw each tuning into its place in a grid of frameworks and devices."""
    frameworks = list(dict.fromkeys(trainer.framework for trainer in tunings))
    places = list(dict.fromkeys((trainer.device, trainer.workers) for trainer in tunings))
    steps = {name: _steps([table for one, table in tunings.items() if one.framework == name]) for name in frameworks}
    width = width_of(options, ONE_COLUMN if len(places) == 1 else TWO_COLUMNS)
    label_width = min(0.4 * width, max(text_width(text) for texts in steps.values() for text in texts.values()) + 0.02)
    axis_width = (width - label_width - 0.2) / len(places) - 0.1
    heights = [sum(_row_heights(texts, label_width)) for texts in steps.values()]
    title_lines = max(wrapped(_title(*one), axis_width).count("\n") + 1 for one in tunings.items())
    figure = Figure(figsize=(width, sum(heights) + len(frameworks) * (title_lines * line_height() + 0.12) + 0.45))
    ratios = {"height_ratios": heights}
    axes = figure.subplots(len(frameworks), len(places), sharex=True, sharey="row", squeeze=False, gridspec_kw=ratios)
    drawn = {
        (frameworks.index(trainer.framework), places.index((trainer.device, trainer.workers))): (trainer, table)
        for trainer, table in tunings.items()
    }
    for (row, column), axis in np.ndenumerate(axes):
        rows = _name_rows(axis, steps[frameworks[row]], label_width)
        if (row, column) in drawn:
            _draw_waterfall(axis, drawn[row, column][1], rows)
            axis.set_title(wrapped(_title(*drawn[row, column]), axis_width), loc="left")
        else:
            axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel(wrapped("time per epoch (stock loop: 1)", axis_width))
    axes[0, 0].set_xlim(0, 1.05 * max(_farthest(table) for table in tunings.values()))
    return figure


def _steps(tables: list[pd.DataFrame]) -> dict[str, str]:
    """The rows of a framework's panels: the text of each step that a device has, between the two loops."""
    steps = pd.concat(tables).drop_duplicates("step")
    return {FIRST: FIRST, **dict(zip(steps["step"], steps["text"], strict=True)), LAST: LAST}


def _title(trainer: Trainer, table: pd.DataFrame) -> str:
    """The title of a panel: framework and device, and the time per epoch before and after."""
    stock_seconds, tuned_seconds = _ends(table)
    name = short_name(trainer._replace(loop=STOCK))
    return f"{name}: {three_digits(stock_seconds)} → {three_digits(tuned_seconds)} s"


def _ends(table: pd.DataFrame) -> tuple[float, float]:
    """Seconds per epoch of the stock loop and of the tuned loop."""
    stock_seconds = table["before_epoch_seconds"].iloc[0]
    taken = table[table["taken"].astype(bool)]
    return stock_seconds, (taken["epoch_seconds"].iloc[-1] if len(taken) else stock_seconds)


def _farthest(table: pd.DataFrame) -> float:
    """The end of the axis, as a share of the stock loop's time."""
    stock_seconds, _ = _ends(table)
    ends = (table["high"].astype(float) * table["before_epoch_seconds"]).dropna()
    return float(max(stock_seconds, *table["epoch_seconds"], *ends) / stock_seconds)


def _row_heights(texts: Mapping[str, str], width: float) -> list[float]:
    return [line_height() * (wrapped(text, width).count("\n") + 1) + 0.03 for text in texts.values()]


def _name_rows(axis: Axes, texts: Mapping[str, str], width: float) -> dict[str, float]:
    """Name the rows of a panel; return the place of each, in inches from the top."""
    heights = np.array(_row_heights(texts, width))
    middles = heights.cumsum() - heights / 2
    axis.set_yticks(middles, [wrapped(text, width) for text in texts.values()])
    axis.set_ylim(heights.sum(), 0)
    axis.grid(visible=False, axis="y")
    return dict(zip(texts, middles.tolist(), strict=True))


def _draw_waterfall(axis: Axes, table: pd.DataFrame, rows: Mapping[str, float]) -> None:
    """Draw the steps of one tuning from top to bottom. rows: the place of each step."""
    stock_seconds, tuned_seconds = _ends(table)
    axis.barh([rows[FIRST], rows[LAST]], [1, tuned_seconds / stock_seconds], height=BAR, color=COLOURS[0])
    for step in rows_of(table):
        before, row = step["before_epoch_seconds"] / stock_seconds, rows[step["step"]]
        colour = COLOURS[4] if step["ratio"] < 1 else COLOURS[3]
        look: dict[str, Any] = {"color": colour} if step["taken"] else {"facecolor": "white", "edgecolor": colour}
        axis.barh(row, before * (step["ratio"] - 1), left=before, height=BAR, **look)
        if step["low"] is not None:
            lengths = np.clip([[step["ratio"] - step["low"]], [step["high"] - step["ratio"]]], 0, None)
            place = before * step["ratio"]
            axis.errorbar([place], [row], xerr=before * lengths, fmt="none", ecolor="black", elinewidth=1)
