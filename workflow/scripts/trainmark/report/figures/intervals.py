"""Figures whose rows have a mark and its 95 % interval: break-evens and times to accuracy. Lengths are in inches."""

from collections.abc import Iterable
from dataclasses import replace
from math import isinf

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from trainmark.report.figures.axes import draw_interval, log_axis, name_rows, time_unit
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import (
    COLOURS,
    GREY,
    MOST_HEIGHT,
    ONE_COLUMN,
    Entry,
    Look,
    add_legend,
    add_note,
    hollow_entry,
    looks,
    width_of,
)
from trainmark.report.figures.text import short_name, wrapped
from trainmark.tables.formatting import DISTURBED_MARK, DISTURBED_NOTE
from trainmark.tables.tables import are_disturbed, rows_of, select_trainer
from trainmark.trainer import Trainer

TIMES = {
    "training_seconds": (Look("training time", COLOURS[0], "o"), -0.18),
    "wall_seconds": (Look("wall time", COLOURS[3], "s"), 0.18),
}
"""For each time that has a break-even, how it is drawn and where in its row."""

FADED = "#8c8c8c"
"""Colour of what is outside the measured numbers of epochs; lighter ones would be hard to see."""

NOT_ROWS = 2.1
"""Height of what is above and below the rows of break-evens."""


def draw_break_even(data: Data) -> Figure | None:
    """From how many epochs on is another trainer faster? In the row "A → B", A is faster with fewer epochs and B with
    more. Bars: 95 % interval; an arrow: it has no upper end; a hollow mark has too few pairs for one. Shaded: the
    numbers of epochs that were trained; marks outside are extrapolated, and grey.

    Wall time also includes the start of the process, loading and evaluation. Pairs of which one is always faster are
    left out.
    """
    table = data.break_even[data.break_even["epochs"].notna()]
    if table.empty:
        return None
    measured = (float(data.runs["epochs"].min()), float(data.runs["epochs"].max()))
    rows = _ordered(rows_of(table), measured)
    width = width_of(data.options, ONE_COLUMN)
    figure = Figure(figsize=(width, 1))
    axis = figure.subplots()
    height_of_all = name_rows(axis, list(rows), 0.42 * width, least=0.24)
    most = int((MOST_HEIGHT - NOT_ROWS) / (height_of_all / len(rows)))
    shown = dict(list(rows.items())[:most])
    height = name_rows(axis, list(shown), 0.42 * width, least=0.24)
    figure.set_size_inches(width, height + 0.85)
    _draw_break_evens(axis, list(shown.values()), measured, 0.55 * width)
    axis.set_xlabel(wrapped("number of epochs at which both take as long", 0.55 * width))
    axis.text(0, 1.01, "faster before → after ", ha="right", va="bottom", transform=axis.transAxes)
    add_legend(figure, _entries([row for of_pair in shown.values() for row in of_pair], measured))
    left_out = len(rows) - len(shown)
    add_note(figure, [f"and {left_out} more in break_even.csv"] if left_out else [])
    return figure


def draw_time_to_accuracy(data: Data) -> Figure | None:
    """Training time until the target accuracy was reached, the fastest trainer first. Mark: median; bar: its 95 %
    interval; an arrow: it has no upper end; a hollow mark has too few runs for one. In brackets: how many runs
    reached the target; trainers that never did are last.

    In the median, a run that did not reach the target counts as longer (Kaplan and Meier). Disturbed runs enter it
    only if all runs were disturbed.
    """
    table, styles = data.targets, looks(data)
    if table.empty:
        return None
    table = table.assign(never=table["reached"] == 0).sort_values(["never", "seconds"], kind="stable")
    width = width_of(data.options, ONE_COLUMN)
    figure = Figure(figsize=(width, 1))
    axis = figure.subplots()
    rows = rows_of(table)
    marks = [DISTURBED_MARK * _is_disturbed(data, Trainer.of(row)) for row in rows]
    names = [
        f"{short_name(Trainer.of(row))} ({row['reached']}/{row['runs']}){mark}"
        for row, mark in zip(rows, marks, strict=True)
    ]
    figure.set_size_inches(width, name_rows(axis, names, 0.4 * width) + 0.6)
    times = table[["seconds", "low", "high"]].astype(float)
    longest = times.replace(np.inf, np.nan).max().max()
    unit, seconds = time_unit(longest)
    end = 1.3 * longest / seconds
    for place, (row, numbers) in enumerate(zip(rows, times.to_numpy() / seconds, strict=True)):
        draw_interval(axis, place, numbers, styles[Trainer.of(row)], end)
        if row["never"]:
            axis.text(0.02, place, "never", va="center", color=GREY, transform=axis.get_yaxis_transform())
    if longest > 0:
        log_axis(axis, "x", [*(times.to_numpy().ravel() / seconds), end], 0.55 * width)
    axis.set_xlabel(f"training time ({unit})")
    targets = " and ".join(f"{100 * target:g} %" for target in table["target_accuracy"].unique())
    axis.set_title(wrapped(f"test accuracy of {targets}", 0.55 * width), loc="left")
    if (times["low"].isna() & times["seconds"].notna()).any():
        add_legend(figure, [hollow_entry("too few runs for an interval")])
    add_note(figure, [DISTURBED_NOTE] if any(marks) else [])
    return figure


def _is_disturbed(data: Data, trainer: Trainer) -> bool:
    """Whether the time to the target accuracy is that of disturbed runs alone."""
    own = select_trainer(data.longest, trainer)
    return are_disturbed(own[own["target_seconds"].notna()])


# --- break-evens --------------------------------------------------------------------------------------------------


def _ordered(rows: Iterable[dict], measured: tuple[float, float]) -> dict[str, list[dict]]:
    """The rows of each pair by its name, those with a break-even in the measured range first, then by epochs."""
    pairs: dict[str, list[dict]] = {}
    for row in rows:
        first, second = (short_name(Trainer.named(row[side])) for side in ("first", "second"))
        before, after = (first, second) if row["faster_after"] == row["second"] else (second, first)
        pairs.setdefault(f"{before} → {after}", []).append(row)

    def place(item: tuple[str, list[dict]]) -> tuple[bool, float]:
        return min((not _is_within(row, measured), row["epochs"]) for row in item[1])

    return dict(sorted(pairs.items(), key=place))


def _is_within(row: dict, measured: tuple[float, float]) -> bool:
    return bool(measured[0] <= row["epochs"] <= measured[1])


def _draw_break_evens(axis: Axes, pairs: list[list[dict]], measured: tuple[float, float], width: float) -> None:
    """Draw the marks of each pair into its row. width: about the axis's."""
    numbers = pd.DataFrame([row for of_pair in pairs for row in of_pair])[["epochs", "low", "high"]].astype(float)
    finite = [value for value in numbers.to_numpy().ravel() if not np.isnan(value) and not isinf(value)]
    end = 1.5 * max(*finite, *measured)
    low, high = measured  # a single number of epochs has some width
    axis.axvspan(*(measured if low < high else (low / 1.05, high * 1.05)), **_shade())
    for place, of_pair in enumerate(pairs):
        for row in of_pair:
            look, shift = TIMES[row["metric"]]
            look = look if _is_within(row, measured) else replace(look, colour=FADED)
            values = np.array([row["epochs"], row["low"], row["high"]], float)
            draw_interval(axis, place + shift, values, look, end)
    log_axis(axis, "x", [*finite, end, *measured], width)


def _shade() -> dict:
    return {"facecolor": "#ececec", "edgecolor": GREY, "linewidth": 0.5, "zorder": 0}


def _entries(rows: list[dict], measured: tuple[float, float]) -> list[Entry]:
    """The legend's entries of what these rows draw."""
    metrics = {row["metric"] for row in rows}
    marks = [Line2D([], [], label=look.label, linewidth=1, **look.dots())
             for metric, (look, _) in TIMES.items() if metric in metrics]  # fmt: skip
    entries: list[Entry] = [*marks, Patch(label="measured numbers of epochs", **_shade())]
    if not all(_is_within(row, measured) for row in rows):
        dots = Look("", FADED, "o").dots()
        entries.append(Line2D([], [], label="extrapolated", linewidth=1, **dots))
    if any(row["low"] is None for row in rows):
        entries.append(hollow_entry("too few pairs for an interval"))
    return entries
