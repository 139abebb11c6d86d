"""One style for all figures: sizes, type, colours, legends and notes. Lengths are in inches unless a name says mm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd
from fontTools.ttLib import TTFont
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from trainmark.errors import ConfigError, did_you_mean
from trainmark.report.figures.data import Data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.text import line_height, place_of, wrapped
from trainmark.trainer import STOCK, TRAINER, Trainer

MM = 1 / 25.4

ONE_COLUMN, TWO_COLUMNS = 88 * MM, 183 * MM
"""Widths of one and of two columns of a paper. That of IEEEtran is 88.6 mm."""

MOST_HEIGHT = 170 * MM
"""No figure with its legend is higher, so that it fits a page with its caption."""

FONT = "DejaVu Sans"
"""matplotlib's own font: it is part of the package, so it is the same on every machine."""

PLAIN_FONTS = ("Liberation Sans", "Arimo", FONT)
"""For the plain style, the first that is installed. The first two are as wide as Arial, which journals ask for."""

MOST_FONTS = 40
"""The most that a message lists."""

SIZES = {"report": 7, "plain": 6}
"""Size of all type in points, by style. Journals ask for 5 to 7."""

COMMON: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "font.sans-serif": [FONT, "Verdana", "Arial"],  # of characters that a font lacks, and where an SVG's is missing
    "text.hinting": "none",  # widths are then the same at any resolution
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.which": "major",
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "errorbar.capsize": 2,
    "svg.hashsalt": "trainmark",  # so that drawing a figure again gives the same file
    "svg.fonttype": "none",  # its texts are texts, which can be found, read and edited
    "pdf.fonttype": 42,  # TrueType, because journals refuse Type 3 fonts
}
"""Settings of matplotlib in every style. All others are its defaults, whatever a user's matplotlibrc says."""

COLOURS = ("#0072B2", "#C68800", "#000000", "#D55E00", "#009E73", "#C26A9C", "#3A9AD3")
"""Okabe and Ito's palette without its yellow; orange, purple and sky blue are darker, for a contrast of 3 on white. The
first three also differ in grey."""

MARKERS = ("o", "s", "^", "D", "v", "P", "p", "<", ">")

WIDTHS = (3.2, 2.1, 1.2)
"""Line widths in points, by framework. Thick lines are drawn first, so that curves that coincide stay visible."""

LINES: dict[tuple[str, str], Any] = {
    ("cpu", "stock"): "-",
    ("gpu", "stock"): (0, (4, 1.5)),
    ("cpu", "tuned"): (0, (5, 1.2, 1, 1.2)),
    ("gpu", "tuned"): (0, (1.5, 1.2)),
}
"""Line style of each device and loop, with the least number of workers."""

DASHES_OF_WORKERS = {"cpu": (5.0, 1.2), "gpu": (2.5, 1.2)}
"""Of more workers: a dash and its gap, by device; 2 dots follow for the second number of workers, 3 for the third."""

FILLS = {"stock": "full", "tuned": "left"}
"""Which part of a marker is filled, by loop."""

FILLS_OF_WORKERS = ("bottom", "right", "top", "left")
"""The same for the second number of workers, the third, and so on."""

GREY = "#6b6b6b"
"""Colour of published results and of notes."""

REFERENCE_MARKERS = ("*", "d", "H", "8")

MOST_ENTRIES = 6
"""Of more trainers, a legend has frameworks and devices apart, and figures by epochs have several panels."""


def settings(options: FigureOptions) -> dict[str, Any]:
    """The settings of matplotlib that these options ask for. Raises ConfigError if the font can't be used."""
    font, size = _font_of(options), options.size or SIZES[options.style]
    sizes = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    return COMMON | {
        **dict.fromkeys(sizes, size),
        "font.family": [font, "sans-serif"],
        "axes.grid": options.style == "report",
        "savefig.dpi": options.dpi,
    }


def _font_of(options: FigureOptions) -> str:
    installed = set(fontManager.get_font_names())
    if options.font and options.font not in installed:
        listed = [*sorted(installed)[:MOST_FONTS], *(["..."] if len(installed) > MOST_FONTS else [])]
        raise ConfigError(
            f"the font of the figures, {options.font}, is not installed; install it, or leave it out for {FONT}; "
            f"allowed: {', '.join(listed)}{did_you_mean(options.font, installed)}"
        )
    if options.font and not _is_truetype(options.font):
        raise ConfigError(
            f"the font of the figures, {options.font}, has no TrueType outlines, which the PDFs need; name another, or "
            f"leave it out of the config for {FONT}"
        )
    if options.font or options.style != "plain":
        return options.font or FONT
    return next(font for font in PLAIN_FONTS if font in installed and _is_truetype(font))


@cache
def _is_truetype(font: str) -> bool:
    """Whether an installed font has TrueType outlines. matplotlib writes others, such as CFF, as if they were that."""
    with TTFont(fontManager.findfont(FontProperties([font])), fontNumber=0, lazy=True) as tables:
        return "glyf" in tables


def width_of(options: FigureOptions, own: float) -> float:
    """Width of a figure. own: that of this figure on the screen if the user chose none; in a paper all fit a column."""
    if options.width_mm:
        return options.width_mm * MM
    return ONE_COLUMN if options.style == "plain" else own


# --- looks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """How a trainer is drawn, the same in all figures of a group. label: its name. width: of lines, in points.

    dashes: its line style. fill: which part of its markers is filled.
    """

    label: str
    colour: str
    marker: str
    width: float = WIDTHS[-1]
    dashes: Any = "-"
    fill: str = "full"

    def line(self, thin: bool = False) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its lines. thin: in the least width."""
        width = WIDTHS[-1] if thin else self.width
        return {"color": self.colour, "linestyle": self.dashes, "linewidth": width}

    def dots(self, hollow: bool = False, size: float = 5) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its markers. Their white edge shows them on a thick line. size: in points."""
        look: dict[str, Any] = {"color": self.colour, "marker": self.marker, "markersize": size}
        if hollow:
            return look | {"markerfacecolor": "white", "markeredgecolor": self.colour, "markeredgewidth": 0.8}
        if self.fill != "full":
            return look | {"markeredgewidth": 0.4, "fillstyle": self.fill, "markerfacecoloralt": "white"}
        return look | {"markeredgewidth": 0.4, "markeredgecolor": "white"}

    def handle(self, thin: bool = False) -> Line2D:
        """Its entry in a legend."""
        return Line2D([], [], label=self.label, **self.line(thin) | self.dots())


Looks = dict[Trainer, Look]


def looks(data: Data) -> Looks:
    """The look of each trainer.

    Frameworks have colours; devices, loops and numbers of workers have line styles; devices have markers, which loops
    and numbers of workers fill in part, so that no two trainers look alike in grey either. With more frameworks than
    colours, colours come again with other markers. A trainer looks the same if others of its certificate are not drawn.
    """
    certified = [Trainer.parse(one["trainer"]) for one in (data.certificate or {}).get("trainers", [])]
    return looks_of(data.runs, certified)


def looks_of(runs: pd.DataFrame, first: Iterable[Trainer] = ()) -> Looks:
    """The look of each trainer of these runs. first: those whose parts come first, whether they have runs or not."""
    trainers = [Trainer.of(row) for row in runs[[*TRAINER]].drop_duplicates().to_dict("records")]
    known = [*first, *trainers]
    order = list(dict.fromkeys(trainer.framework for trainer in known))
    counts = sorted({trainer.workers for trainer in known})
    trainers = sorted(trainers, key=lambda trainer: order.index(trainer.framework))
    return {
        trainer: _look(trainer, order.index(trainer.framework), counts.index(trainer.workers)) for trainer in trainers
    }


def _look(trainer: Trainer, framework: int, workers: int) -> Look:
    """The look of a trainer. framework, workers: the places of these parts among those of the figure."""
    marker = MARKERS[(2 * framework + (trainer.device == "gpu")) % len(MARKERS)]
    width, colour = WIDTHS[min(framework, len(WIDTHS) - 1)], COLOURS[framework % len(COLOURS)]
    dashes, fill = LINES[trainer.device, trainer.loop], FILLS[trainer.loop]
    if workers and trainer.loop == STOCK:
        dashes = (0, DASHES_OF_WORKERS[trainer.device] + (1, 1.2) * (workers + 1))
        fill = FILLS_OF_WORKERS[(workers - 1) % len(FILLS_OF_WORKERS)]
    return Look(trainer.name, colour, marker, width, dashes, fill)


def by_framework(styles: Looks) -> dict[str, list[Look]]:
    """The looks of each framework's trainers."""
    found: dict[str, list[Look]] = {}
    for trainer, look in styles.items():
        found.setdefault(trainer.framework, []).append(look)
    return found


# --- legend and note ----------------------------------------------------------------------------------------------

Entry = Artist | tuple[Line2D, ...]
"""An entry of a legend: what has a label, or several lines of which the first has it."""


def trainer_entries(styles: Looks, thin: bool = False) -> list[Entry]:
    """The legend's entries of trainers. Of many: those of frameworks by colour, and of devices and loops by line."""
    if len(styles) <= MOST_ENTRIES:
        return [look.handle(thin) for look in styles.values()]
    entries: list[Entry] = []
    for framework, of_framework in by_framework(styles).items():
        markers = {look.marker: look for look in of_framework}.values()
        entries.append(tuple(Line2D([], [], label=framework, **look.line() | {"linestyle": "-"} | look.dots())
                             for look in markers))  # fmt: skip
    places = {place_of(trainer): look for trainer, look in reversed(styles.items())}
    lines = [Line2D([], [], label=place, **look.line(thin=True) | {"color": "black"}) for place, look in places.items()]
    return [*entries, *reversed(lines)]


OF_DISTURBED = "median of disturbed runs"
"""What a hollow mark is where each mark is a median of times."""


def hollow_entry(label: str) -> Line2D:
    """The legend's entry that says what hollow marks are."""
    return Line2D([], [], linestyle="none", label=label, **Look(label, GREY, "o").dots(hollow=True))


def add_legend(figure: Figure, entries: Sequence[Entry]) -> None:
    """Write a legend above the axes, in as many columns as fit; the figure grows by its height."""
    width, height = figure.get_size_inches()
    labels = [str((entry[0] if isinstance(entry, tuple) else entry).get_label()) for entry in entries]
    labels = [wrapped(label, min(2.8, width / 2 - 0.6)) for label in labels]
    shown: dict[str, Any] = {"handles": entries, "labels": labels, "loc": "outside upper left"}
    shown["handler_map"] = {tuple: HandlerTuple(ndivide=None, pad=0)}
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(7, len(entries)), 0, -1):
        legend = figure.legend(ncols=columns, **shown)
        box = legend.get_window_extent(renderer)
        if columns == 1 or box.width / figure.dpi < width - 0.1:
            break
        legend.remove()
    figure.set_size_inches(width, height + box.height / figure.dpi)


def add_note(figure: Figure, lines: Iterable[str]) -> None:
    """Write a note below the axes and earlier notes, wrapped to the figure's width; the figure grows by its height."""
    width, height = figure.get_size_inches()
    text = "\n".join(wrapped(line, width - 0.2) for line in lines)
    if text:
        before = figure.get_supxlabel()
        figure.set_size_inches(width, height + line_height() * (text.count("\n") + 1) + 0.05)
        text = f"{before}\n{text}" if before else text
        # Not parsed as mathematics, because a name may contain a $.
        figure.supxlabel(text, x=0.1 / width, ha="left", fontsize="medium", color=GREY, parse_math=False)
