"""The figures of a section as HTML, embedded in the page."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from trainmark.plan.figures import NOTHING_TO_SHOW, known_figures

LARGEST_SVG = 300_000
"""In bytes. Of a larger SVG, such as one with a dot for each of thousands of runs, the page embeds the PNG instead if
that is smaller."""


ORDER = (
    "speed_up", "training_time", "time_to_accuracy", "break_even", "accuracy", "loss", "energy", "tuning", "parity",
    "phases",
)  # fmt: skip
"""The order of the figures on the page. Others follow."""


@dataclass(frozen=True)
class Embedded:
    """A figure of the page.

    anchor: its HTML id.
    caption: the first sentence of its caption, and how to read it.
    element: <svg> or <img>.
    width: in points.
    """

    name: str
    anchor: str
    caption: tuple[str, str]
    element: Markup
    width: float


def figures(folder: Path) -> Iterator[Embedded]:
    """Yield the figures of a section that have something to show, of most interest first. folder: of its figures."""
    captions = known_figures()
    for name in sorted(captions, key=lambda one: ORDER.index(one) if one in ORDER else len(ORDER)):
        title, _, reading = re.sub(r"(?<=[.?]) ", "\n", captions[name], count=1).partition("\n")
        file = folder / f"{name}.svg"
        svg = file.read_text(encoding="utf-8")
        if NOTHING_TO_SHOW not in svg:
            anchor = "-".join((*file.parts[-4:-1], name))
            width = float(svg.partition(' width="')[2].partition("pt")[0])
            yield Embedded(name, anchor, (title, reading), _element(file, svg, anchor), width)


def _element(file: Path, svg: str, anchor: str) -> Markup:
    picture = file.with_suffix(".png")
    encoded = base64.b64encode(picture.read_bytes()).decode() if len(svg) > LARGEST_SVG and picture.exists() else ""
    if 0 < len(encoded) < len(svg):
        return Markup('<img src="data:image/png;base64,{}" alt="" aria-labelledby="{}-caption">').format(
            encoded, anchor
        )
    return _inline_svg(svg, anchor)


def _inline_svg(svg: str, anchor: str) -> Markup:
    """The <svg> element of a file, named by its caption and not by the title of the file, which browsers would show
    under the pointer. Its ids get a prefix: ids must be unique in the page.
    """
    about = r"(?s)<title>.*?</title>\s*(?=<metadata>)|<metadata>.*?</metadata>"
    text = re.sub(about, "", svg[svg.index("<svg") :], count=2)
    for pattern in ('id="', 'xlink:href="#', "url(#"):
        text = text.replace(pattern, f"{pattern}{anchor}-")
    named = text.replace("<svg ", f'<svg role="img" aria-labelledby="{anchor}-caption" ', 1)
    return Markup(named)  # noqa: S704 (matplotlib's own output, from names that the config check allows)
