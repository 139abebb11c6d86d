"""Draws figures into files. The same tables give the same files, byte for byte, with the same version of matplotlib."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure

from trainmark.files.whole import written_whole
from trainmark.plan.figures import FIGURE_FORMATS, NOTHING_TO_SHOW, PREFIX
from trainmark.report.figures import curves, legend, lines, parity, rows
from trainmark.report.figures.caption import caption_of, for_latex
from trainmark.report.figures.data import Data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.style import settings
from trainmark.tables.formatting import listed
from trainmark.tables.verdicts import NAMED, short_refusals

MODULES = (curves, lines, rows, parity)
"""Where the figures are; the same as plan.figures.MODULES."""

OF_RATIOS = ("speed_up", "break_even", "scaling")
"""The figures of ratios of pairs of runs."""

ALL_CENSORED = "Nothing to show: every run diverged or ran out of memory."
NO_VALUES = "Nothing to show: no run has the values that this figure draws."


@dataclass(frozen=True)
class Drawn:
    """A figure to be written in any number of formats. shows: whether it shows anything. details: of its caption."""

    figure: Figure
    shows: bool
    title: str
    caption: str
    details: str
    options: FigureOptions

    def metadata(self, kind: str) -> dict[str, str | None]:
        """What a file says of itself. No date, so that drawing it again gives the same file."""
        (font, *_) = settings(self.options)["font.family"]
        by = f"matplotlib {matplotlib.__version__}, {font}"  # another version or font gives another file
        own: dict[str, dict[str, str | None]] = {
            "pdf": {"Creator": by, "Subject": f"{self.caption}\n{self.details}", "CreationDate": None},
            "svg": {"Creator": by, "Date": None, "Description": None if self.shows else NOTHING_TO_SHOW},
            "png": {"Software": by},
        }
        return {"Title": self.title} | own[kind]


def drawing(name: str) -> Callable[[Data], Figure | None]:
    """The function that draws a figure. Raises StopIteration if there is none."""
    found: Callable[[Data], Figure | None]
    found = next(vars(module)[PREFIX + name] for module in MODULES if hasattr(module, PREFIX + name))
    return found


def nothing_to_show(name: str, data: Data) -> str:
    """The sentence in place of a figure that shows nothing."""
    if "ok" not in set(data.runs["status"]):
        return ALL_CENSORED
    compared = data.section.rows("ratio", "training_seconds")
    if name in OF_RATIOS and len(compared) and compared["value"].isna().all():
        reasons = list(compared["verdict"].unique())
        return f"Nothing to show, because no pair has a ratio; {listed(reasons[:NAMED])}."
    return NO_VALUES


def draw_figure(name: str, data: Data) -> tuple[Figure, bool]:
    """(a figure, whether it shows anything). A figure that shows nothing has a sentence that says so.

    A line below the artwork names the pairs that must not be ranked, because the artwork may be used without its
    caption.
    """
    figure = drawing(name)(data)
    if figure is None:
        figure = Figure(figsize=(data.width(1), 0.1))
        legend.add_note(figure, nothing_to_show(name, data))
        return figure, False
    legend.add_note(figure, short_refusals(data.pairs))
    return figure, True


def _style(options: FigureOptions) -> AbstractContextManager[None]:
    """The settings of matplotlib for these options. A user's matplotlibrc would change the figures."""
    return matplotlib.style.context(settings(options), after_reset=True)


def laid_out(name: str, data: Data) -> Drawn:
    """Draw a figure and lay it out."""
    with _style(data.options):
        figure, shows = draw_figure(name, data)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # otherwise each writing would change the layout slightly
        caption = caption_of(name, "" if shows else nothing_to_show(name, data), figure, data)
        return Drawn(figure, shows, f"{name}: {data.section.title}", *caption, data.options)


def write_figure(drawn: Drawn, file: Path) -> None:
    """Write the file of a figure whose format is the end of the file's name."""
    kind, caption, details = file.name.partition(".")[2], drawn.caption, drawn.details
    texts = {
        "caption.txt": f"{caption}\n{details}",
        "caption.tex": for_latex(caption),
        "details.tex": for_latex(details),
    }
    with _style(drawn.options), written_whole(file) as part:
        if kind in texts:
            part.write_text(texts[kind] + "\n", encoding="utf-8")
        else:
            drawn.figure.savefig(part, format=kind, metadata=drawn.metadata(kind))


def save_figures(data: Data, folder: Path, names: Iterable[str]) -> None:
    """Draw figures of a group into a folder, each in all formats."""
    for name in names:
        drawn = laid_out(name, data)
        for kind in FIGURE_FORMATS:
            write_figure(drawn, folder / f"{name}.{kind}")
