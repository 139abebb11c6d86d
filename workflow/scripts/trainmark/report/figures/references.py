"""Draws published results in a style of their own, and says that other hardware produced them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.report.figures.style import GREY, REFERENCE_MARKERS


def label_of(reference: Mapping) -> str:
    """What a legend calls a published result."""
    return f"published: {reference['name']}"


def draw_references(axis: Axes, references: Sequence[Mapping], column: str, factor: float = 1.0) -> list[Line2D]:
    """Draw a value of published results by number of epochs; return the legend's entries of those that have it.

    column: a key of their results. factor: from its unit to the axis's.
    A value of NaN is not drawn, but the entry names its number of epochs.
    """
    handles = []
    for reference, marker in zip(references, REFERENCE_MARKERS * len(references), strict=False):
        values = {one["epochs"]: one[column] * factor for one in reference["results"] if column in one}
        if not values:
            continue
        not_numbers = [f"{epochs}" for epochs, value in values.items() if value != value]
        after = f" (NaN at {', '.join(not_numbers)} epochs)" if not_numbers else ""
        look: dict[str, Any] = {
            "color": GREY,
            "linestyle": ":",
            "linewidth": 1,
            "marker": marker,
            "markerfacecolor": "white",
        }
        axis.plot(list(values), list(values.values()), markersize=5, **look)
        handles.append(Line2D([], [], markersize=5, label=label_of(reference) + after, **look))
    return handles


def reference_epochs(references: Iterable[Mapping], column: str) -> set[int]:
    """The numbers of epochs for which published results have a value."""
    return {one["epochs"] for reference in references for one in reference["results"] if column in one}


def reference_note(figure: Figure, references: Iterable[Mapping]) -> list[str]:
    """A sentence on the published results that a figure's legend names; empty if it names none."""
    texts = [text.get_text().replace("\n", " ") for legend in figure.legends for text in legend.get_texts()]
    described = []
    for one in references:
        if any(text.startswith(label_of(one)) for text in texts):
            parts = (f"{one['hardware']}, {one['year'] or 'year not stated'}", one["source"], one.get("note"))
            described.append(f"{one['name']}: {'; '.join(filter(None, parts))}")
    return [f"Published results, on other hardware: {'. '.join(described)}."] if described else []
