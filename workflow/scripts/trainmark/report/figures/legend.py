"""Legends above the axes of figures, and notes below them. Lengths are in inches."""

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.report.figures.style import GREY, Look, Looks
from trainmark.report.figures.text import line_height, wrapped

OF_DISTURBED, TOO_FEW = "median of disturbed runs", "too few pairs for an interval"
"""What hollow marks are: where each mark is a median of times, and where it has an interval."""


def entry(label: str, **look: Any) -> Line2D:
    """An entry with this look; without a line if the look has none."""
    return Line2D([], [], label=label, **{"linestyle": "none"} | look)


def of_look(look: Look, thin: bool = False) -> Line2D:
    """The entry of a line with marks. thin: in the least width."""
    return entry(look.label, **look.line(thin) | look.dots())


def of_hollow(label: str, are_hollow: Iterable[bool]) -> list[Line2D]:
    """The entry that says what hollow marks are, if any mark is."""
    return [entry(label, **Look(label, GREY, "o").dots(hollow=True))] if any(are_hollow) else []


def of_trainers(looks: Looks, thin: bool = False) -> list[Line2D]:
    """The entries of trainers."""
    return [of_look(look, thin) for look in looks.values()]


def add(figure: Figure, entries: Sequence[Artist]) -> None:
    """Write a legend above the axes, in as many columns as fit; the figure grows by its height."""
    width, height = figure.get_size_inches()
    labels = [wrapped(str(one.get_label()), min(2.8, max(1.2, width / 2 - 0.6))) for one in entries]
    shown: dict[str, Any] = {"handles": entries, "labels": labels, "loc": "outside upper left"}
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(7, len(entries)), 0, -1):
        legend = figure.legend(ncols=columns, **shown)
        box = legend.get_window_extent(renderer)
        if columns == 1 or box.width / figure.dpi < width - 0.1:
            figure.set_size_inches(width, height + box.height / figure.dpi)
            return
        legend.remove()


def add_note(figure: Figure, text: str) -> None:
    """Write a note below the axes and earlier notes, wrapped to the figure's width; the figure grows by its height."""
    if text:
        width, height = figure.get_size_inches()
        lines = wrapped(text, width - 0.2)
        figure.set_size_inches(width, height + line_height() * (lines.count("\n") + 1) + 0.05)
        lines = "\n".join(filter(None, [figure.get_supxlabel(), lines]))
        # Not parsed as mathematics, because a name may contain a $.
        figure.supxlabel(lines, x=0.1 / width, ha="left", fontsize="medium", color=GREY, parse_math=False)
