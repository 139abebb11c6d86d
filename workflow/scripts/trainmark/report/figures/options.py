"""What a user may choose of all figures: width, style, font, resolution and trainers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

STYLES = ("report", "plain")
"""report: for the screen, in matplotlib's own font. plain: for a paper, without a grid, in a sans serif as journals ask
for."""

WIDTHS_MM, DPI, SIZES_PT = (60, 400), (72, 2400), (5, 12)
"""The least and the largest width, resolution and size of type."""


@dataclass(frozen=True)
class FigureOptions:
    """The options of all figures of a group.

    width_mm: width in mm; None: of each figure its own, that of one or of two columns.
    style: one of STYLES.
    font, size: family of the type, and its size in points; None: that of the style.
    dpi: dots per inch of the PNG, and of pictures in the PDF and the SVG.
    trainers: the trainers that are drawn, such as "chainer-cpu"; None: all.
    """

    width_mm: float | None = None
    style: str = STYLES[0]
    font: str | None = None
    size: float | None = None
    dpi: float = 300
    trainers: tuple[str, ...] | None = None

    @classmethod
    def of(cls, chosen: Mapping[str, Any]) -> Self:
        """Return the options under their names in a config and on the command line of plot.py; others are default."""
        given = {**chosen, "width_mm": chosen.get("width"), "trainers": tuple(chosen.get("trainers") or ()) or None}
        return cls(**{key: given[key] for key in cls.__dataclass_fields__ if given.get(key) is not None})


DEFAULT_OPTIONS = FigureOptions()
