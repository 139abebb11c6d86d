"""Text in figures: its width, its lines, and short names. Lengths are in inches.

Widths and heights are those of the font and the size in matplotlib's settings at that moment.
"""

from functools import cache
from textwrap import wrap

from matplotlib import rcParams
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath


def text_width(text: str) -> float:
    """Width of a text."""
    return _width(text, tuple(rcParams["font.family"]), rcParams["font.size"])


@cache
def _width(text: str, family: tuple[str, ...], size: float) -> float:
    font = FontProperties(family=list(family), size=size)
    points, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(points) / 72


def line_height() -> float:
    """Height of a line of text with the space to the next."""
    return 1.33 * float(rcParams["font.size"]) / 72


def wrapped(text: str, width: float) -> str:
    """Break a text into lines of at most this width: at spaces and after hyphens, and if need be in words."""
    for length in range(int(1.5 * width / text_width("n")), 1, -1):
        lines = wrap(text, length)
        if all(text_width(line) <= width for line in lines):
            return "\n".join(lines)
    return "\n".join(wrap(text, 1))


def short_name(name: str) -> str:
    """The name of a trainer without its "on": "keras-jax tuned gpu"."""
    return " ".join(name.rsplit(" on ", 1))
