"""Axes of figures: their units, logarithmic scales, rows with names. Lengths are in inches."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from trainmark.report.figures import legend
from trainmark.report.figures.style import MOST_ROWS_HEIGHT, Look, Looks
from trainmark.report.figures.text import line_height, text_width, wrapped
from trainmark.trainer import Trainer

UNITS = {"s": (("hours", 3600), ("minutes", 60), ("s", 1)), "J": (("MJ", 1e6), ("kJ", 1e3), ("J", 1))}
"""The units of axes, the largest first, each with its size in the unit of the numbers."""


def unit_of(unit: str, largest: float) -> tuple[str, float]:
    """(the unit of an axis, its size in the unit of the numbers): the largest of which the largest number has two."""
    return next((one for one in UNITS[unit] if largest >= 2 * one[1]), UNITS[unit][-1])


def log_axis(axis: Axes, which: str, width: float = np.inf) -> None:
    """Make an axis logarithmic if anything positive is drawn, with numbers that are not powers: exponents would be too
    small in print.

    which: "x" or "y". width: about that of an x axis.
    """
    low = getattr(axis.dataLim, f"minpos{which}") / 1.6  # so that a small difference looks small
    high = getattr(axis.dataLim, f"{which}max") * 1.6
    if not 0 < low < high < np.inf:
        return
    axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    ticks, decades = getattr(axis, f"{which}axis"), np.log10(high / low)
    widest = text_width(f"{high:.0f}" if high >= 1 else f"{low:.1g}") + 0.06
    fits = width >= 3 * decades * widest  # 1, 2 and 5 of each decade
    of_decades = LogLocator(subs=(1, 2, 5) if decades < 2.5 and (fits or decades < 1) else (1,))
    is_narrow = which == "y" and decades < 0.6
    ticks.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]) if is_narrow else of_decades)
    ticks.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    ticks.set_minor_locator(NullLocator())


def log_ticks(
    axis: Axes, ticks: Iterable[float], width: float, labels: Iterable[str] = (), margin: float = 1.4
) -> None:
    """Make a logarithmic x axis with ticks at these numbers, and their labels where there is room.

    width: about that of the axis. labels: in place of the numbers. margin: the factor between the outer ticks and the
    ends of the axis; otherwise a single tick would have the whole width.
    """
    numbers = np.array(sorted(ticks), float)
    low, high = numbers[0] / margin, numbers[-1] * margin
    axis.set(xscale="log", xlim=(low, high))
    shown, right = [], -np.inf
    places = np.log(numbers / low) / np.log(high / low) * width
    for label, place in zip([*labels] or [f"{number:.0f}" for number in numbers], places, strict=True):
        half = text_width(label) / 2 + 0.03
        fits = place - half > right
        shown.append(label if fits else "")
        right = place + half if fits else right
    axis.set_xticks(numbers, shown, minor=False)
    axis.xaxis.set_minor_locator(NullLocator())


def shifted(styles: Looks, epochs: Iterable[int]) -> Iterator[tuple[Trainer, Look, float]]:
    """Yield each trainer, its look, and the factor that moves its dots away from those of others, but not into those of
    the next number of epochs.
    """
    closest = min(np.diff(np.log(sorted(set(epochs)))), default=1.0)
    widest = min(0.03, 0.3 * closest, 0.01 * (len(styles) - 1))  # of 3 % speak the captions
    yield from zip(styles, styles.values(), 1 + np.linspace(-widest, widest, len(styles)), strict=True)


def rows_figure(
    names: Sequence[str], width: float, label_width: float, others: float, least: float = 0.2, columns: int = 1
) -> tuple[Figure, np.ndarray]:
    """(a figure whose rows have names from top to bottom, wrapped to a width; its axes, so many side by side).

    others: the height of what is above and below the rows. least: that of a row. Rows that do not fit a page are left
    out, and a note has their number.
    """
    labels = [wrapped(name, label_width) for name in names]
    height = max(least, line_height() * (max(label.count("\n") for label in labels) + 1) + 0.06)
    labels = labels[: max(1, int(MOST_ROWS_HEIGHT / height))]
    figure = Figure(figsize=(width, len(labels) * height + others))
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    for axis in axes:
        axis.grid(visible=False, axis="y")
    left_out = len(names) - len(labels)
    legend.add_note(figure, f"and {left_out} more in the tables" if left_out else "")
    return figure, axes
