"""The figures of a section, embedded in the page."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.plan.figures import NOTHING_TO_SHOW, known_figures

ORDER = (
    "speed_up", "training_time", "time_to_accuracy", "break_even", "accuracy", "loss", "energy", "tuning", "parity",
    "phases",
)  # fmt: skip
"""The order of the figures on the page. Others follow."""


@dataclass(frozen=True)
class Embedded:
    """A figure of the page.

    anchor: its HTML id.
    caption: what it shows, and the details.
    address: data of the picture as an address.
    width: in points.
    """

    anchor: str
    caption: tuple[str, str]
    address: str
    width: float


def figures(folder: Path) -> Iterator[Embedded]:
    """Yield the figures of a section that have something to show, of most interest first. folder: of its figures."""
    captions = known_figures()
    for name in sorted(captions, key=lambda one: ORDER.index(one) if one in ORDER else len(ORDER)):
        file = folder / f"{name}.svg"
        svg = file.read_bytes()
        if NOTHING_TO_SHOW.encode() not in svg:
            anchor = "-".join((*file.parts[-4:-1], name))
            width = float(svg.partition(b' width="')[2].partition(b"pt")[0])
            address = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
            yield Embedded(anchor, captions[name], address, width)
