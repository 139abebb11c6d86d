"""Axes of figures: logarithmic ones, those of epochs, rows with names, dots and intervals. Lengths are in inches."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

from trainmark.report.figures.style import Look
from trainmark.report.figures.text import line_height, text_width, wrapped

TIME_UNITS = (("hours", 3600), ("minutes", 60))

MOST_SHIFT = 0.03
"""Dots are moved aside by at most this share of their number of epochs."""

MANY_DOTS = 100
"""More dots than this are drawn as a picture, because each dot of a vector file is an element of its own."""


def time_unit(longest_seconds: float) -> tuple[str, int]:
    """The unit for an axis of times, and its seconds: the largest of which the longest time has at least two."""
    return next(((name, seconds) for name, seconds in TIME_UNITS if longest_seconds >= 2 * seconds), ("s", 1))


def log_axis(axis: Axes, which: str, values: Iterable[float], width: float = np.inf) -> None:
    """Make an axis logarithmic, with numbers that are not powers: exponents would be too small in print.

    which: "x" or "y". values: what is drawn, in its unit; those that are not positive and finite are ignored.
    width: about that of an x axis.
    """
    drawn = np.asarray(list(values), float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    low, high = drawn.min() / 1.6, drawn.max() * 1.6  # a range of at least 2.5 holds one of 1, 2 and 5
    axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    ticks = getattr(axis, f"{which}axis")
    decades = np.log10(high / low)
    widest = text_width(f"{high:.0f}" if high >= 1 else f"{low:.1g}") + 0.06
    fits = width >= 3 * decades * widest  # 1, 2 and 5 of each decade
    ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 and (fits or decades < 1) else (1,)))
    ticks.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    ticks.set_minor_locator(NullLocator())
    ticks.set_minor_formatter(NullFormatter())


def epoch_axis(axis: Axes, epochs: Iterable[int], width: float) -> None:
    """Make a logarithmic x axis with a tick at each number of epochs, and labels where there is room.

    width: about that of the axis.
    """
    settings = np.array(sorted(set(epochs)), float)
    low, high = settings[0] / 1.4, settings[-1] * 1.4  # otherwise the dots of a single setting would fill the width
    places = np.log(settings / low) / np.log(high / low) * width
    labels, right = [], -np.inf
    for setting, place in zip(settings, places, strict=True):
        half = text_width(f"{setting:.0f}") / 2 + 0.03
        fits = place - half > right
        labels.append(f"{setting:.0f}" if fits else "")
        right = place + half if fits else right
    axis.set(xscale="log", xlim=(low, high), xlabel="number of epochs")
    axis.set_xticks(settings, labels, minor=False)
    axis.xaxis.set_minor_locator(NullLocator())


def shifts_of(count: int, epochs: Iterable[int]) -> np.ndarray:
    """Factors that move the dots of so many trainers apart, but not into those of the next number of epochs."""
    closest = min(np.diff(np.log(sorted(set(epochs)))), default=1.0)
    widest = min(MOST_SHIFT, 0.3 * closest, 0.01 * (count - 1))
    return 1 + np.linspace(-widest, widest, count) if count > 1 else np.ones(1)


def whole_ticks(axis: Axes) -> None:
    """Put the ticks of a linear x axis at whole numbers, such as epochs."""
    axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def name_rows(axis: Axes, names: Sequence[str], width: float, least: float = 0.2) -> float:
    """Name the rows of an axis from top to bottom, wrapped to a width. Return the height that the rows need.

    least: the least height of a row.
    """
    labels = [wrapped(name, width) for name in names]
    axis.set_yticks(range(len(names)), labels)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    most_lines = max(label.count("\n") + 1 for label in labels)
    return len(names) * max(least, line_height() * most_lines + 0.06)


def draw_dots(axis: Axes, x: ArrayLike, y: ArrayLike, **look: Any) -> Line2D:
    """Draw dots without a line; many of them as a picture."""
    count = np.size(np.asarray(y))
    (dots,) = axis.plot(x, y, linestyle="none", rasterized=count > MANY_DOTS, **look)
    return dots


def draw_interval(axis: Axes, row: float, numbers: np.ndarray, look: Look, end: float) -> None:
    """Draw a dot with its interval into a row; hollow without an interval; nothing if there is no value.

    numbers: the value, and the ends of its interval; NaN where there is none. end: where an arrow stands for no upper
    end.
    """
    value, low, high = numbers
    if not np.isfinite(value):
        return
    lengths = np.nan_to_num([[value - low], [min(high, end) - value]])
    axis.errorbar([value], [row], xerr=np.clip(lengths, 0, None), fmt="none", ecolor=look.colour, elinewidth=1)
    draw_dots(axis, [value], [row], **look.dots(hollow=bool(np.isnan(low))))
    if np.isinf(high):
        draw_dots(axis, [end], [row], marker=">", color=look.colour, markersize=4)
