"""The figure of the certificate: the differences of all pairs. Lengths are in inches."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.parity.certificate import DIFFERENCES, STAGE_TITLES
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES
from trainmark.records.record import decode_loss
from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import COLOURS, MARKERS
from trainmark.report.figures.text import short_name
from trainmark.tables.frames import rows_of

SMALLEST, LARGEST = 1e-18, 10.0
"""Where differences of 0, and infinite ones, are drawn."""

TICKS = {SMALLEST: "0", 1e-15: "1e-15", 1e-12: "1e-12", 1e-9: "1e-9", 1e-5: "1e-5", 1e-2: "0.01", LARGEST: "infinite"}


def draw_parity(data: Data) -> Figure | None:
    """Do the trainers train the same network? The largest relative difference of each stage of the certificate, in
    float64, for each pair, the worst first; vertical lines: the limits of the parity classes.

    Behind each pair stands its class, which other checks may also decide. Pairs that are different or not certified
    must not be ranked.
    """
    width = data.width(2)
    label_width, order = 0.4 * width, [*PARITY_CLASSES, NOT_CERTIFIED]
    classes = {frozenset((row["first"], row["second"])): row["parity"] for row in rows_of(data.section.parity)}
    found = [
        (classes.get(frozenset((pair["first"], pair["second"])), pair["parity"]), pair)
        for pair in (data.section.certificate or {"pairs": []})["pairs"]
    ]
    if not found:
        return None
    found.sort(key=lambda one: -order.index(one[0]))
    names = [f"{short_name(pair['first'])}, {short_name(pair['second'])}: {name}" for name, pair in found]
    figure, (axis,) = scales.rows_figure(names, width, label_width, 0.7)
    entries = _draw_stages(axis, [pair["stages"] for _, pair in found])
    axis.set_xlabel("largest relative difference (ratio)")
    scales.log_ticks(axis, TICKS, width - label_width - 0.2, TICKS.values(), margin=10.0)
    limits = [SMALLEST * 10, *(limit for limit in PARITY_CLASSES.values() if 0 < limit < LARGEST)]
    axis.vlines(limits, *axis.get_ylim(), color="black", linewidth=0.8, linestyle="--")
    above = axis.secondary_xaxis("top")  # with the names of the classes, each over its range
    middles = [sqrt(low * high) for low, high in pairwise([SMALLEST / 10, *limits, LARGEST * 10])]
    above.set_xticks(middles, list(PARITY_CLASSES), minor=False)
    above.minorticks_off()
    above.tick_params(length=0)
    legend.add(figure, entries)
    return figure


def _draw_stages(axis: Axes, pairs: Sequence[Mapping]) -> list[Line2D]:
    """Draw the differences of the stages of each pair into its row, and return the entries of the stages."""
    stages = [stage for stage in STAGE_TITLES if any(of_pair.get(stage) for of_pair in pairs)]
    between = [name for name in DIFFERENCES if name != "updates"]  # not of each trainer's updates from their rule
    entries = []
    for i, stage in enumerate(stages):
        look: dict[str, Any] = {"marker": MARKERS[i], "color": COLOURS[i], "markersize": 3.2}
        found = {row: of_pair[stage] for row, of_pair in enumerate(pairs) if of_pair.get(stage)}
        decoded = [[decode_loss(of_stage[name]) for name in between] for of_stage in found.values()]
        differences = [max(one for one in of_stage if one is not None) for of_stage in decoded]
        drawn = np.nan_to_num(differences, nan=LARGEST).clip(SMALLEST, LARGEST)
        marks.dots(axis, drawn, [row + 0.3 * (i - (len(stages) - 1) / 2) for row in found], **look)
        entries.append(legend.entry(STAGE_TITLES[stage], **look))
    return entries
