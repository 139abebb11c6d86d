"""The figure of the certificate."""

from itertools import chain, pairwise
from math import isfinite, sqrt
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.parity.certificate import DIFFERENCES, STAGE_TITLES
from trainmark.parity.compare import PARITY_CLASSES
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import (
    COLOURS,
    MARKERS,
    TWO_COLUMNS,
    add_legend,
    letter_handles,
    lettered,
    name_rows,
    new_figure,
)
from trainmark.report.parity import largest_difference

BETWEEN_TRAINERS = [name for name in DIFFERENCES if name != "updates"]
"""The differences of a stage that are drawn: not that of each trainer's updates from their rule."""

SMALLEST, LARGEST = 1e-18, 10.0
"""Where differences of 0, and infinite ones, are drawn."""

TICKS = {SMALLEST: "0", 1e-15: "1e-15", 1e-12: "1e-12", 1e-9: "1e-9", 1e-5: "1e-5", 1e-2: "0.01", LARGEST: "infinite"}


def draw_parity(data: Data) -> Figure | None:
    """Do the trainers train the same network? For each pair of trainers the largest relative difference of each stage
    of its certificate, in float64, on a logarithmic axis. Vertical lines: the limits of the parity classes, which are
    named above them. Behind each pair stands its class, which other checks may also decide.
    """
    if data.certificate is None:
        return None
    pairs = data.certificate["pairs"]
    letters = lettered(chain.from_iterable((pair["first"], pair["second"]) for pair in pairs))
    figure = new_figure(TWO_COLUMNS, 1)
    axis = figure.subplots()
    names = [f"{letters[pair['first']]}, {letters[pair['second']]}: {pair['parity']}" for pair in pairs]
    height = name_rows(axis, names, 2.0, least=0.18)
    figure.set_size_inches(TWO_COLUMNS, height + 0.7)
    handles = []
    stages = [stage for stage in STAGE_TITLES if any(pair["stages"].get(stage) for pair in pairs)]
    for i, stage in enumerate(stages):
        rows = [
            (row, largest_difference(pair["stages"][stage], BETWEEN_TRAINERS))
            for row, pair in enumerate(pairs)
            if pair["stages"].get(stage)
        ]
        look: dict[str, Any] = {"marker": MARKERS[i], "color": COLOURS[i], "linestyle": "none", "markersize": 3.2}
        at = [np.clip(value, SMALLEST, LARGEST) if isfinite(value) else LARGEST for _, value in rows]
        axis.plot(at, [row + 0.3 * (i - (len(stages) - 1) / 2) for row, _ in rows], **look)
        handles.append(Line2D([], [], label=STAGE_TITLES[stage], **look))
    axis.set(xscale="log", xlim=(SMALLEST / 10, LARGEST * 10), xlabel="largest relative difference (ratio)")
    axis.set_xticks(list(TICKS), list(TICKS.values()), minor=False)
    axis.minorticks_off()
    _name_classes(axis)
    add_legend(figure, handles + letter_handles(letters))
    return figure


def _name_classes(axis: Axes) -> None:
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
