"""The figure of the certificate: the differences of few trainers, or the classes of many. Lengths are in inches."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.parity.certificate import DIFFERENCES, STAGE_TITLES
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES
from trainmark.parity.sentences import EQUAL
from trainmark.records.record import decode_loss
from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import COLOURS, MARKERS
from trainmark.report.figures.text import lettered

SMALLEST, LARGEST = 1e-18, 10.0
"""Where differences of 0, and infinite ones, are drawn."""

TICKS = {SMALLEST: "0", 1e-15: "1e-15", 1e-12: "1e-12", 1e-9: "1e-9", 1e-5: "1e-5", 1e-2: "0.01", LARGEST: "infinite"}

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
    float64, for each pair; vertical lines: the limits of the parity classes. Of many trainers, the class of each pair
    stands where the row of one and the column of the other cross.

    Behind each pair stands its class, which other checks may also decide. Pairs that are different or not certified
    must not be ranked.
    """
    parity = data.section.parity
    pairs = parity[["first", "second"]].to_numpy()
    classes = dict(zip(map(frozenset, pairs), parity["parity"], strict=True))
    if len(letters := lettered(pairs.ravel())) > 5:  # there are too many pairs for a row each
        return _draw_classes(data.width(1), classes, letters)
    certified = (data.section.certificate or {"pairs": []})["pairs"]
    return _draw_differences(data.width(2), classes, certified) if certified else None


def _draw_differences(width: float, classes: Mapping[frozenset[str], str], pairs: Sequence[Mapping]) -> Figure:
    """Draw a row for each pair with the differences of its stages. pairs: those of the certificate."""
    both = [(pair["first"], pair["second"]) for pair in pairs]
    letters = lettered(name for names in both for name in names)
    names = [
        f"{letters[first]}, {letters[second]}: {classes.get(frozenset((first, second)), pair['parity'])}"
        for (first, second), pair in zip(both, pairs, strict=True)
    ]
    figure, (axis,) = scales.rows_figure(names, width, 2.0, 0.7, least=0.18)
    stages = [stage for stage in STAGE_TITLES if any(pair["stages"].get(stage) for pair in pairs)]
    entries: list[Line2D] = []
    for i, stage in enumerate(stages):
        look: dict[str, Any] = {"marker": MARKERS[i], "color": COLOURS[i], "markersize": 3.2}
        found = {row: pair["stages"][stage] for row, pair in enumerate(pairs) if pair["stages"].get(stage)}
        between = [name for name in DIFFERENCES if name != "updates"]  # not of each trainer's updates from their rule
        decoded = [[decode_loss(of_stage[name]) for name in between] for of_stage in found.values()]
        differences = [max(one for one in of_stage if one is not None) for of_stage in decoded]
        drawn = np.nan_to_num(differences, nan=LARGEST).clip(SMALLEST, LARGEST)
        marks.dots(axis, drawn, [row + 0.3 * (i - (len(stages) - 1) / 2) for row in found], **look)
        entries.append(legend.entry(STAGE_TITLES[stage], **look))
    axis.set_xlabel("largest relative difference (ratio)")
    scales.log_ticks(axis, TICKS, width - 1.3, TICKS.values(), margin=10.0)
    limits = [SMALLEST * 10, *(limit for limit in PARITY_CLASSES.values() if 0 < limit < LARGEST)]
    axis.vlines(limits, *axis.get_ylim(), color="black", linewidth=0.8, linestyle="--")
    above = axis.secondary_xaxis("top")  # with the names of the classes, each over its range
    middles = [sqrt(low * high) for low, high in pairwise([SMALLEST / 10, *limits, LARGEST * 10])]
    above.set_xticks(middles, list(PARITY_CLASSES), minor=False)
    above.minorticks_off()
    above.tick_params(length=0)
    named = [legend.entry(f"{letter}: {name}") for name, letter in letters.items()]
    legend.add(figure, [*entries, *named])
    return figure


def _draw_classes(width: float, classes: Mapping[frozenset[str], str], letters: Mapping[str, str]) -> Figure:
    """Draw the class of each pair into a triangle of rows and columns, one of each for a trainer."""
    labels, count = [f"{letter}  {name}" for name, letter in letters.items()], len(letters)
    figure, (axis,) = scales.rows_figure(labels, width, 0.6 * width, 0.35, least=0.15)
    axis.set_xticks(range(count - 1), list(letters.values())[:-1])
    axis.set_xlim(-0.5, count - 1.5)
    axis.grid(visible=True)  # which leads from a mark to its row and its column
    places = {name: place for place, name in enumerate(letters)}
    entries: list[Line2D] = []
    for name, symbol in SYMBOLS.items():
        cells = [sorted(places[one] for one in pair) for pair, parity in classes.items() if parity == name]
        if cells:
            marks.dots(axis, *zip(*cells, strict=True), **symbol)
            entries.append(legend.entry(EQUAL.get(name, f"{name}: not ranked"), **symbol))
    legend.add(figure, entries)
    return figure
