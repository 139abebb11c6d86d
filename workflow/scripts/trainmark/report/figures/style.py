"""One style for all figures: sizes, type and looks. Lengths are in inches unless a name says mm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fontTools.ttLib import TTFont
from matplotlib.font_manager import FontProperties, fontManager

from trainmark.errors import ConfigError, did_you_mean
from trainmark.report.figures.options import FigureOptions
from trainmark.trainer import Trainer

MM = 1 / 25.4

ONE_COLUMN, TWO_COLUMNS = 88 * MM, 183 * MM
"""Widths of one and of two columns of a paper. That of IEEEtran is 88.6 mm."""

MOST_ROWS_HEIGHT = 170 * MM - 2.1
"""The rows of a figure are no higher, so that the figure with its legend leaves room on a page for the caption."""

FONT = "DejaVu Sans"
"""matplotlib's own font: it is part of the package, so it is the same on every machine."""

PLAIN_FONTS = ("Liberation Sans", "Arimo", FONT)
"""For the plain style, the first that is installed. The first two are as wide as Arial, which journals ask for."""

MOST_FONTS, SIZES = 40, {"report": 7, "plain": 6}
"""The most fonts that a message lists, and the size of type in points by style. Journals ask for 5 to 7."""

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

GREY = "#6b6b6b"
"""Colour of published results and of notes."""

MARKERS, REFERENCE_MARKERS = ("o", "s", "^", "D", "v", "P", "p", "<", ">"), ("*", "d", "H", "8")
"""Those of trainers, and of published results."""

MOST_ENTRIES = 6
"""Of more trainers, figures by epochs are wider and higher, and curves thinner."""

WIDTHS = (3.2, 2.1, 1.2)
"""Line widths in points, by framework. Thick lines are drawn first, so that curves that coincide stay visible."""

DASHES = (
    "-", (0, (4, 1.5)), (0, (5, 1.2, 1, 1.2)), (0, (1.5, 1.2)), (0, (5, 1.2, 1, 1.2, 1, 1.2)), (0, (2.5, 1.2, 1, 1.2)),
    (0, (7, 1.5)), (0, (2.5, 1.2, 1, 1.2, 1, 1.2)), (0, (7, 1.2, 2.5, 1.2)), (0, (1, 3)),
)  # fmt: skip
"""Line styles: the first is that of the first loop, number of workers and device of a figure, in sorted order."""

FILLS = ("full", "left", "bottom", "right", "top")
"""Which part of a marker is filled: the first is that of the first loop and number of workers of a figure."""


def settings(options: FigureOptions) -> dict[str, Any]:
    """The settings of matplotlib that these options ask for. Raises ConfigError if the font can't be used."""
    size = options.size or SIZES[options.style]
    sizes = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    return COMMON | {
        **dict.fromkeys(sizes, size),
        "font.family": [_font_of(options), "sans-serif"],
        "axes.grid": options.style == "report",
        "savefig.dpi": options.dpi,
    }


def _font_of(options: FigureOptions) -> str:
    own, installed = options.font, set(fontManager.get_font_names())
    of_style = PLAIN_FONTS if options.style == "plain" else (FONT,)
    if font := next((one for one in ([own] if own else of_style) if one in installed and _is_truetype(one)), None):
        return font
    named = f"the font of the figures, {own}"
    if own in installed:
        raise ConfigError(
            f"{named}, has no TrueType outlines, which the PDFs need; name another, or leave it out of the config for "
            f"{FONT}"
        )
    listed = [*sorted(installed)[:MOST_FONTS], *(["..."] if len(installed) > MOST_FONTS else [])]
    raise ConfigError(
        f"{named}, is not installed; install it, or leave it out for {FONT}; "
        f"allowed: {', '.join(listed)}{did_you_mean(str(own), installed)}"
    )


@cache
def _is_truetype(font: str) -> bool:
    """Whether an installed font has TrueType outlines. matplotlib writes others, such as CFF, as if they were that."""
    with TTFont(fontManager.findfont(FontProperties(family=[font])), fontNumber=0, lazy=True) as tables:
        return "glyf" in tables


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


Looks = dict[Trainer, Look]


def looks_of(trainers: Iterable[Trainer], known: Sequence[Trainer]) -> Looks:
    """The look of each of these trainers. known: they and others, in whose order looks are given.

    Frameworks have colours. Devices, loops and numbers of workers have line styles; devices have markers, which loops
    and numbers of workers fill in part, so that no two trainers look alike in grey either. With more frameworks than
    colours, colours come again with other markers.
    """
    frameworks = list(dict.fromkeys(one.framework for one in known))
    places = sorted({(one.loop, one.workers, one.device) for one in known})
    parts = sorted({place[:2] for place in places})
    looks = {}
    for one in sorted(trainers, key=lambda trainer: frameworks.index(trainer.framework)):
        framework = frameworks.index(one.framework)
        looks[one] = Look(
            one.name,
            COLOURS[framework % len(COLOURS)],
            MARKERS[(2 * framework + (one.device == "gpu")) % len(MARKERS)],
            WIDTHS[min(framework, len(WIDTHS) - 1)],
            DASHES[places.index((one.loop, one.workers, one.device)) % len(DASHES)],
            FILLS[parts.index((one.loop, one.workers)) % len(FILLS)],
        )
    return looks
