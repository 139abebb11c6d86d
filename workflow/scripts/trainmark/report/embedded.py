"""The figures of a section as HTML, embedded in the page."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from trainmark.plan.figures import NOTHING_TO_SHOW, known_figures

LARGEST_SVG = 300_000
"""In bytes. Of a larger SVG, such as one with a dot for each of thousands of runs, the page embeds the PNG instead."""


@dataclass(frozen=True)
class Embedded:
    """A figure of the page: its name, its HTML id, its caption, its <svg> or <img> element, and its width in points."""

    name: str
    anchor: str
    caption: str
    element: Markup
    width: float


def figures(folder: Path) -> Iterator[Embedded]:
    """Yield the figures of a section that have something to show. folder: of the section's figures."""
    for name, caption in known_figures().items():
        file = folder / f"{name}.svg"
        svg = file.read_text(encoding="utf-8")
        if NOTHING_TO_SHOW not in svg:
            anchor = "-".join((*file.parts[-4:-1], name))
            width = float(svg.partition(' width="')[2].partition("pt")[0])
            yield Embedded(name, anchor, caption, _element(file, svg, anchor), width)


def _element(file: Path, svg: str, anchor: str) -> Markup:
    picture = file.with_suffix(".png")
    if len(svg) > LARGEST_SVG and picture.exists():
        encoded = base64.b64encode(picture.read_bytes()).decode()
        return Markup('<img src="data:image/png;base64,{}" alt="" aria-labelledby="{}-caption">').format(
            encoded, anchor
        )
    return _inline_svg(svg, anchor)


def _inline_svg(svg: str, anchor: str) -> Markup:
    """The <svg> element of a file, named by its caption. Its ids get a prefix: ids must be unique in the page."""
    text = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    for pattern in ('id="', 'xlink:href="#', "url(#"):
        text = text.replace(pattern, f"{pattern}{anchor}-")
    named = text.replace("<svg ", f'<svg role="img" aria-labelledby="{anchor}-caption" ', 1)
    return Markup(named)  # noqa: S704 (matplotlib's own output, from names that the config check allows)
