"""The figure of the certificate: the differences of few trainers, or the classes of many. Lengths are in inches."""

from collections.abc import Mapping
from itertools import chain, pairwise
from math import isfinite, sqrt
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.parity.certificate import DIFFERENCES, STAGE_TITLES
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES
from trainmark.parity.sentences import EQUAL
from trainmark.report.figures.axes import draw_dots, name_rows
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import (
    COLOURS,
    GREY,
    MARKERS,
    ONE_COLUMN,
    TWO_COLUMNS,
    Entry,
    add_legend,
    width_of,
)
from trainmark.report.figures.text import lettered, text_width
from trainmark.report.parity import largest_difference

BETWEEN_TRAINERS = [name for name in DIFFERENCES if name != "updates"]
"""The differences of a stage that are drawn: not that of each trainer's updates from their rule."""

SMALLEST, LARGEST = 1e-18, 10.0
"""Where differences of 0, and infinite ones, are drawn."""

TICKS = {SMALLEST: "0", 1e-15: "1e-15", 1e-12: "1e-12", 1e-9: "1e-9", 1e-5: "1e-5", 1e-2: "0.01", LARGEST: "infinite"}

FEW_TICKS = {SMALLEST: "0", 1e-12: "1e-12", 1e-9: "", 1e-5: "1e-5", LARGEST: "infinite"}
"""Those of a narrow figure."""

MOST_TRAINERS = 5
"""Of more trainers, the classes are drawn instead of the differences: there are too many pairs for a row each."""

SYMBOLS: dict[str, dict[str, Any]] = {
    "bitwise": {"marker": "o", "color": COLOURS[0], "markersize": 4},
    "rounding": {"marker": "o", "color": COLOURS[0], "markerfacecolor": "white", "markersize": 4},
    "single": {"marker": "^", "color": COLOURS[4], "markerfacecolor": "white", "markersize": 4},
    "different": {"marker": "X", "color": COLOURS[3], "markersize": 8, "markeredgecolor": "black"},
    NOT_CERTIFIED: {"marker": "s", "color": "black", "markersize": 7},
}
"""The symbol of each class. The last two, which forbid a ranking, are large and dark."""


def draw_parity(data: Data) -> Figure | None:
    """Do the trainers train the same network? The largest relative difference of each stage of the certificate, in
    float64, for each pair; vertical lines: the limits of the parity classes. The class of each pair, where the row
    of one and the column of the other cross.

    Behind each pair stands its class, which other checks may also decide. Pairs that are different or not certified
    must not be ranked.
    """
    if len(set(data.parity["first"]) | set(data.parity["second"])) > MOST_TRAINERS:
        return _draw_classes(data)
    return _draw_differences(data) if (data.certificate or {}).get("pairs") else None


# --- few trainers -------------------------------------------------------------------------------------------------


def _draw_differences(data: Data) -> Figure:
    """Draw a row for each pair with the differences of its stages."""
    pairs = (data.certificate or {})["pairs"]
    letters = lettered(chain.from_iterable((pair["first"], pair["second"]) for pair in pairs))
    width, classes = width_of(data.options, TWO_COLUMNS), _classes(data.parity)
    figure = Figure(figsize=(width, 1))
    axis = figure.subplots()
    names = [
        f"{letters[pair['first']]}, {letters[pair['second']]}: "
        f"{classes.get(frozenset((pair['first'], pair['second'])), pair['parity'])}"
        for pair in pairs
    ]
    figure.set_size_inches(width, name_rows(axis, names, 2.0, least=0.18) + 0.7)
    stages = [stage for stage in STAGE_TITLES if any(pair["stages"].get(stage) for pair in pairs)]
    entries: list[Entry] = []
    for i, stage in enumerate(stages):
        look: dict[str, Any] = {"marker": MARKERS[i], "color": COLOURS[i], "linestyle": "none", "markersize": 3.2}
        found = [(row, pair["stages"][stage]) for row, pair in enumerate(pairs) if pair["stages"].get(stage)]
        rows = [row + 0.3 * (i - (len(stages) - 1) / 2) for row, _ in found]
        axis.plot([_place(largest_difference(of_stage, BETWEEN_TRAINERS)) for _, of_stage in found], rows, **look)
        entries.append(Line2D([], [], label=STAGE_TITLES[stage], **look))
    ticks = TICKS if width > 2 * ONE_COLUMN - 0.5 else FEW_TICKS
    axis.set(xscale="log", xlim=(SMALLEST / 10, LARGEST * 10), xlabel="largest relative difference (ratio)")
    axis.set_xticks(list(ticks), list(ticks.values()), minor=False)
    axis.minorticks_off()
    _name_limits(axis)
    for name, letter in letters.items():
        entries.append(Line2D([], [], linestyle="none", label=f"{letter}: {name}"))
    add_legend(figure, entries)
    return figure


def _classes(parity: pd.DataFrame) -> dict[frozenset[str], str]:
    """The class of each pair of trainers, in either order."""
    return {frozenset((row["first"], row["second"])): row["parity"] for row in parity.to_dict("records")}


def _place(difference: float) -> float:
    """Where a difference is drawn."""
    return float(np.clip(difference, SMALLEST, LARGEST)) if isfinite(difference) else LARGEST


def _name_limits(axis: Axes) -> None:
    """Draw the limits of the classes, and write their names above the axis, each over its range."""
    limits = [SMALLEST * 10, *(limit for limit in PARITY_CLASSES.values() if 0 < limit < LARGEST)]
    for limit in limits:
        axis.axvline(limit, color="black", linewidth=0.8, linestyle="--")
    ends = [SMALLEST / 10, *limits, LARGEST * 10]
    middles = [sqrt(low * high) for low, high in pairwise(ends)]
    above = axis.secondary_xaxis("top")
    above.set_xticks(middles, list(PARITY_CLASSES), minor=False)
    above.minorticks_off()
    above.tick_params(length=0)


# --- many trainers ------------------------------------------------------------------------------------------------


def _draw_classes(data: Data) -> Figure:
    """Draw the class of each pair into a triangle of rows and columns, one of each for a trainer."""
    classes = _classes(data.parity)
    letters = lettered(chain(data.parity["first"], data.parity["second"]))
    names, count = list(letters), len(letters)
    width = width_of(data.options, ONE_COLUMN)
    labels = [f"{letter}  {name}" for name, letter in letters.items()]
    label_width = min(0.6 * width, max(map(text_width, labels)) + 0.02)
    cell = min(0.2, (width - label_width - 0.2) / count)
    figure = Figure(figsize=(width, 1))
    axis = figure.subplots()
    figure.set_size_inches(width, name_rows(axis, labels, label_width, least=cell) + 0.35)
    right = (width - label_width - 0.2) / cell  # cells are about square, with nothing to the right of them
    axis.set_xlim(-0.5, right - 0.5)
    axis.set_xticks(range(count - 1), list(letters.values())[:-1])
    _draw_cells(axis, count)
    drawn = {name: _cells_of(name, classes, names) for name in SYMBOLS}
    for name, cells in drawn.items():
        draw_dots(axis, [column for column, _ in cells], [row for _, row in cells], **SYMBOLS[name])
    add_legend(figure, [Line2D([], [], linestyle="none", label=EQUAL.get(name, f"{name}: not ranked"), **SYMBOLS[name])
                        for name, cells in drawn.items() if cells])  # fmt: skip
    return figure


def _cells_of(parity: str, classes: Mapping[frozenset[str], str], names: list[str]) -> list[tuple[int, int]]:
    """(column, row) of each pair of this class."""
    return [
        (column, row)
        for row, second in enumerate(names)
        for column, first in enumerate(names[:row])
        if classes.get(frozenset((first, second))) == parity
    ]


def _draw_cells(axis: Axes, count: int) -> None:
    """Draw thin lines that lead from a cell to its row and its column."""
    axis.grid(visible=False)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(length=0)
    axis.hlines(range(1, count), -0.5, np.arange(1, count) - 1, color=GREY, linewidth=0.3, zorder=0)
    axis.vlines(range(count - 1), np.arange(count - 1) + 1, count - 0.5, color=GREY, linewidth=0.3, zorder=0)
