"""Finishes the SVG that matplotlib writes: it becomes smaller, and its markers show their values under the pointer."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

WIDE = "Verdana, sans-serif"
NARROW = "Arial, Helvetica, sans-serif"
"""Families of about the same width as DejaVu Sans, and as the sans serifs of journals, where the font is missing."""


@contextmanager
def of_trainer(axis: Axes, place: int) -> Iterator[None]:
    """Give everything that the body adds to an axis an id trainer-<i>-<n>. place: that of the trainer in the group."""
    before = set(axis.get_children())
    yield
    panel = axis.figure.axes.index(axis)
    for number, artist in enumerate(axis.get_children()):
        if artist not in before:
            artist.set_gid(f"trainer-{place}-{panel}-{number}")


def titled(line: Line2D, texts: Sequence[str]) -> None:
    """Give the points of a line texts, which browsers show where the pointer is on the marker. The line needs a gid."""
    drawn = np.isfinite(np.asarray(line.get_xydata(), float)).all(axis=1)
    every: Any = line.get_markevery() or (0, 1)
    marked = slice(every[0], None, every[1])
    shown = [text for text, is_drawn in zip(texts[marked], drawn[marked], strict=True) if is_drawn]
    line.titles = shown  # type: ignore[attr-defined]


def name_entries(figure: Figure, names: Sequence[Collection[str]]) -> None:
    """Give the legend's entries of trainers the ids legend-<i> (text) and legend-<i>-mark, by their places.

    A script of the report switches the artists with the gids trainer-<i>-<n> on and off by them. An entry that stands
    for several trainers, such as a framework, has all their places: legend-<i>.<j>.

    names: what each trainer, or a set of trainers that it belongs to, may be called.
    """
    for legend in figure.legends:
        for text, mark in zip(legend.get_texts(), legend.legend_handles, strict=True):
            called = "".join(text.get_text().split())  # the legend's names are wrapped
            places = [str(i) for i, own in enumerate(names) if called in ("".join(name.split()) for name in own)]
            if places and mark is not None:
                text.set_gid(f"legend-{'.'.join(places)}")
                mark.set_gid(f"legend-{'.'.join(places)}-mark")


def finished(svg: str, figure: Figure) -> str:
    """The SVG of a figure with its font named once, with values under the pointer, and with rounded coordinates."""
    for line in figure.findobj(Line2D):
        if titles := getattr(line, "titles", []):
            svg = _with_titles(svg, str(line.get_gid()), titles)
    return _rounded(_one_font(svg))


def _with_titles(svg: str, gid: str, titles: Sequence[str]) -> str:
    """The SVG with titles in the markers of a line; as it is if it has another number of them, as in a picture."""
    before, found, rest = svg.partition(f'<g id="{gid}">')
    own, next_group, others = rest.partition("<g id=")
    parts = re.split(r"(<use [^>]*)/>", own)
    if not found or len(parts) != 2 * len(titles) + 1:
        return svg
    parts[1::2] = [
        f"{use}><title>{escape(title)}</title></use>" for use, title in zip(parts[1::2], titles, strict=True)
    ]
    return before + found + "".join(parts) + next_group + others


def _one_font(svg: str) -> str:
    """The SVG with the font of its texts, and what may stand in for it, as an attribute of the whole."""
    families = set(re.findall(r"; font-family: ([^;\"]*)", svg))
    if len(families) != 1:
        return svg
    (family,) = families
    first = family.partition(",")[0]
    names = f"{first}, {WIDE if 'DejaVu' in first or 'Verdana' in first else NARROW}"
    return svg.replace(f"; font-family: {family}", "").replace("<svg ", f'<svg font-family="{names}" ', 1)


def _rounded(svg: str) -> str:
    """An SVG with coordinates to 1/100 point. It is smaller, and the last digits of a processor don't show in it."""

    def cut(attribute: re.Match) -> str:
        return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])

    level = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", re.sub(r"\n +<", "\n<", svg))
    return re.sub(r' (?:d|x|y)="[^"]*"|(?:translate|rotate)\([^)]*\)', cut, level)
