"""What is drawn into axes: dots, bars, lines and bands of numbers, and published results in a style of their own."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from trainmark.report.figures import legend
from trainmark.report.figures.style import GREY, REFERENCE_MARKERS, Look


def of_rows(rows: pd.DataFrame, factor: float = 1.0) -> np.ndarray:
    """Values, lower and upper ends of rows of numbers, shape (3, rows), times a factor; NaN where there is none."""
    return factor * rows[["value", "low", "high"]].to_numpy(float).T


def dots(axis: Axes, x: ArrayLike, y: ArrayLike, **look: Any) -> None:
    """Draw dots without a line; many as a picture, because each dot of a vector file is an element of its own."""
    if count := np.size(y):  # the layout would fail for none
        axis.plot(x, y, linestyle="none", rasterized=count > 100, **look)


def bars(axis: Axes, places: ArrayLike, numbers: np.ndarray, colour: str = "black", along: str = "y") -> None:
    """Draw a bar between the ends of each number that has them. numbers: see `of_rows`. along: their axis, x or y."""
    value, low, high = numbers
    lengths = np.clip([value - low, high - value], 0, None)
    points = {along: value, "xy".replace(along, ""): places, f"{along}err": lengths}
    axis.errorbar(**points, fmt="none", ecolor=colour, elinewidth=1)


def with_bars(
    axis: Axes, places: np.ndarray, numbers: np.ndarray, look: Look, along: str = "y", end: float = np.inf
) -> None:
    """Draw dots with bars: hollow ones without ends, and an arrow at `end` for an infinite upper end."""
    value, low, high = numbers
    bars(axis, places, np.minimum(numbers, end), look.colour, along)
    kinds = (
        (~np.isnan(low), value, look.dots()),
        (np.isnan(low) & np.isfinite(value), value, look.dots(hollow=True)),
        (np.isinf(high), np.full_like(value, end), {"marker": ">", "color": look.colour, "markersize": 4}),
    )
    for chosen, values, how in kinds:
        x, y = (values, places) if along == "x" else (places, values)
        dots(axis, x[chosen], y[chosen], **how)


def line(
    axis: Axes, rows: pd.DataFrame, look: Look, x: str = "epochs", shift: float = 1.0, factor: float = 1.0
) -> None:
    """Draw rows of numbers by x, joined by a line. shift: of their dots and bars. factor: to the unit of the axis."""
    rows = rows.sort_values(x)
    places, numbers = rows[x].to_numpy(float), of_rows(rows, factor)
    axis.plot(places, numbers[0], **look.line(thin=True))
    with_bars(axis, shift * places, numbers, look)


def band(axis: Axes, x: ArrayLike, numbers: ArrayLike, colour: str, every: int = 1, **style: Any) -> None:
    """Draw a line through numbers, and a band between their ends, which has only every n-th point."""
    places, (value, low, high) = np.asarray(x, float), np.asarray(numbers, float)
    axis.plot(places, value, **style)
    axis.fill_between(places[::every], low[::every], high[::every], color=colour, alpha=0.15, lw=0)


def references(
    axis: Axes, published: Iterable[Mapping], column: str, factor: float, entries: dict[str, Line2D]
) -> set[int]:
    """Draw a value of published results by number of epochs; return these numbers.

    column: a key of their results. factor: from its unit to the axis's. entries: those of the legend by the result's
    name; it gets those of the results that have the value. A NaN is not drawn, but the entry names its epochs.
    """
    drawn: set[int] = set()
    for place, one in enumerate(published):
        values = {result["epochs"]: result[column] * factor for result in one["results"] if column in result}
        look: dict[str, Any] = {"color": GREY, "linestyle": ":", "linewidth": 1, "markerfacecolor": "white"}
        look |= {"marker": REFERENCE_MARKERS[place % len(REFERENCE_MARKERS)], "markersize": 5, "zorder": 2.5}  # on top
        if values:
            axis.plot(list(values), list(values.values()), **look)
            not_numbers = [f"{epochs}" for epochs, value in values.items() if value != value]
            after = f" (NaN at {', '.join(not_numbers)} epochs)" if not_numbers else ""
            entries.setdefault(one["name"], legend.entry(f"published: {one['name']}{after}", **look))
            drawn |= {*values}
    return drawn
