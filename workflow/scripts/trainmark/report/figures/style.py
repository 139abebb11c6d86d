"""One style for all figures: sizes, type, colours, axes, legends and notes. Lengths are in inches, type in points."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

from trainmark.trainer import STOCK, TRAINER, Trainer

ONE_COLUMN, TWO_COLUMNS = 3.5, 7.2
"""Widths of one and of two columns of a paper."""

SMALL = 7
"""Size of the smallest type. Nothing may be smaller in print."""

FONT = "DejaVu Sans"
"""matplotlib's own font: it is part of the package, so it is the same on every machine."""

STYLE: dict[str, Any] = {
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
    "font.family": FONT,
    "font.size": SMALL,
    "text.hinting": "none",  # widths are then the same at any resolution
    "axes.titlesize": 8,
    "axes.labelsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "errorbar.capsize": 2,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "trainmark",  # so that drawing a figure again gives the same file
    "pdf.fonttype": 42,  # TrueType, because journals refuse Type 3 fonts
}
"""Settings of matplotlib. All others are its defaults, whatever a user's matplotlibrc says."""

COLOURS = ("#0072B2", "#E69F00", "#000000", "#D55E00", "#009E73", "#CC79A7", "#56B4E9")
"""Okabe and Ito's palette without its yellow, which is too light on white. The first four also differ in grey."""

MARKERS = ("o", "s", "^", "D", "v", "P", "p", "<", ">")

WIDTHS = (3.2, 2.1, 1.2)
"""Line widths in points, by framework. Thick lines are drawn first, so that curves that coincide stay visible."""

LINES = {
    ("cpu", "stock"): "-",
    ("gpu", "stock"): (0, (4, 1.5)),
    ("cpu", "tuned"): (0, (5, 1.2, 1, 1.2)),
    ("gpu", "tuned"): (0, (1.5, 1.2)),
}
"""Line style of each device and loop."""

GREY = "#6b6b6b"
"""Colour of published results and of notes."""

REFERENCE_MARKERS = ("*", "d", "H", "8")

MANY_DOTS = 100
"""More dots than this are drawn as a picture, because each dot of a vector file is an element of its own."""

TIME_UNITS = (("hours", 3600), ("minutes", 60))


@dataclass(frozen=True)
class Look:
    """How a trainer is drawn, the same in all figures of a group. label: its name. width: of lines, in points.

    The markers of a tuned loop are half filled.
    """

    label: str
    device: str
    colour: str
    marker: str
    width: float
    loop: str = STOCK

    def line(self, thin: bool = False) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its lines. thin: in the least width."""
        width = WIDTHS[-1] if thin else self.width
        return {"color": self.colour, "linestyle": LINES[self.device, self.loop], "linewidth": width}

    def dots(self, **others: object) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its markers. Their white edge shows them on a thick line."""
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}
        if self.loop != STOCK:
            edge |= {"markeredgecolor": self.colour, "fillstyle": "left", "markerfacecoloralt": "white"}
        return {"color": self.colour, "marker": self.marker, "markersize": 5} | edge | others

    def handle(self, thin: bool = False) -> Line2D:
        """Its entry in a legend."""
        return Line2D([], [], label=self.label, **self.line(thin) | self.dots())


def looks(runs: pd.DataFrame) -> dict[Trainer, Look]:
    """The look of each trainer.

    Frameworks have colours, devices and loops have line styles, devices have markers, and tuned loops fill only half of
    them, so that no two trainers look alike in grey either. With more frameworks than colours, colours come again with
    other markers.
    """
    found = {}
    for i, framework in enumerate(runs["framework"].unique()):
        of_framework = runs[runs["framework"] == framework][[*TRAINER]].drop_duplicates()
        for trainer in map(Trainer.of, of_framework.to_dict("records")):
            marker = MARKERS[(2 * i + (trainer.device == "gpu")) % len(MARKERS)]
            width, colour = WIDTHS[min(i, len(WIDTHS) - 1)], COLOURS[i % len(COLOURS)]
            found[trainer] = Look(trainer.name, trainer.device, colour, marker, width, trainer.loop)
    return found


# --- text ---------------------------------------------------------------------------------------------------------


@cache
def text_width(text: str) -> float:
    """Width of a text in the smallest type."""
    points, _, _ = TextToPath().get_text_width_height_descent(
        text, FontProperties(family=FONT, size=SMALL), ismath=False
    )
    return float(points) / 72


def wrapped(text: str, width: float) -> str:
    """Break a text into lines of at most this width: at spaces, after hyphens in names, and if need be in words."""
    lines = [""]
    for piece in re.split(r"(?<= )|(?<=-)(?=[a-z])", text):
        for part in _cut(piece, width):
            if lines[-1] and text_width((lines[-1] + part).rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _cut(word: str, width: float) -> Iterator[str]:
    """Yield a word in parts of at most this width."""
    while text_width(word.rstrip()) > width:
        length = max(1, sum(text_width(word[: i + 1]) <= width for i in range(len(word))))
        yield word[:length]
        word = word[length:]
    yield word


# --- axes ---------------------------------------------------------------------------------------------------------


def time_unit(longest_seconds: float) -> tuple[str, int]:
    """The unit for an axis of times, and its seconds: the largest of which the longest time has at least two."""
    return next(((name, seconds) for name, seconds in TIME_UNITS if longest_seconds >= 2 * seconds), ("s", 1))


def log_axis(axis: Axes, which: str, values: Iterable[float]) -> None:
    """Make an axis logarithmic, with numbers that are not powers: exponents would be too small in print.

    which: "x" or "y". values: what is drawn, in its unit; those that are not positive and finite are ignored.
    """
    drawn = np.asarray(list(values), float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    low, high = drawn.min() / 1.6, drawn.max() * 1.6  # a range of at least 2.5 holds one of 1, 2 and 5
    axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    ticks = getattr(axis, f"{which}axis")
    decades = np.log10(high / low)
    ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,)))
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


def name_rows(axis: Axes, names: Sequence[str], width: float, least: float = 0.22) -> float:
    """Name the rows of an axis from top to bottom, wrapped to a width. Return the height that the rows need.

    least: the least height of a row.
    """
    labels = [wrapped(name, width) for name in names]
    axis.set_yticks(range(len(names)), labels)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    most_lines = max(label.count("\n") + 1 for label in labels)
    return len(names) * max(least, 0.13 * most_lines + 0.06)


def lettered(names: Iterable[str]) -> dict[str, str]:
    """A letter for each of these trainers, which stands for its name where two names a row would be too long."""
    letters = [first + second for first in ("", *ascii_uppercase) for second in ascii_uppercase]
    return dict(zip(dict.fromkeys(names), letters, strict=False))


def letter_handles(letters: Mapping[str, str]) -> list[Line2D]:
    """The entries of a legend that say what the letters stand for."""
    return [Line2D([], [], linestyle="none", label=f"{letter}: {name}") for name, letter in letters.items()]


def draw_dots(axis: Axes, x: ArrayLike, y: ArrayLike, **look: Any) -> None:
    """Draw dots without a line; many of them as a picture."""
    count = np.size(np.asarray(y))
    axis.plot(x, y, linestyle="none", rasterized=count > MANY_DOTS, **look)


# --- legend and note ----------------------------------------------------------------------------------------------


def new_figure(width: float, height: float) -> Figure:
    """An empty figure. height: that of the axes with their labels; legend and note are added to it."""
    return Figure(figsize=(width, height))


def add_legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Write a legend above the axes, in as many columns as fit; the figure grows by its height."""
    width, height = figure.get_size_inches()
    for handle in handles:
        handle.set_label(wrapped(str(handle.get_label()), min(2.8, width - 0.7)))
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(4, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper left", ncols=columns)
        box = legend.get_window_extent(renderer)
        if columns == 1 or box.width / figure.dpi < width - 0.1:
            break
        legend.remove()
    figure.set_size_inches(width, height + box.height / figure.dpi)


def add_note(figure: Figure, lines: Iterable[str]) -> None:
    """Write a note below the axes, wrapped to the figure's width; the figure grows by the height of the note."""
    width, height = figure.get_size_inches()
    text = "\n".join(wrapped(line, width - 0.2) for line in lines)
    if text:
        figure.set_size_inches(width, height + 0.12 * (text.count("\n") + 1) + 0.05)
        # Not parsed as mathematics, because a name may contain a $.
        figure.supxlabel(text, x=0.1 / width, ha="left", fontsize=SMALL, color=GREY, parse_math=False)
