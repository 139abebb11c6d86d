"""Draws figures into files. The same tables give the same files, byte for byte, with the same version of matplotlib."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure

from trainmark.files.whole import written_whole
from trainmark.plan.figures import FIGURE_FORMATS, NOTHING_TO_SHOW, PREFIX
from trainmark.report.figures import curves, parity, times
from trainmark.report.figures.data import Data
from trainmark.report.figures.references import reference_note
from trainmark.report.figures.style import ONE_COLUMN, STYLE, add_note, new_figure
from trainmark.tables.mixed_environments import disturbances, mixed_calls
from trainmark.tables.verdicts import parity_note
from trainmark.tables.waiting import waiting_sentences

MODULES = (curves, times, parity)
"""Where the figures are; the same as plan.figures.MODULES."""

ALL_CENSORED = "Nothing to show: every run diverged or ran out of memory."

NO_VALUES = "Nothing to show: no run has the values that this figure draws."


def drawing(name: str) -> Callable[[Data], Figure | None]:
    """The function that draws a figure. Raises StopIteration if there is none."""
    found: Callable[[Data], Figure | None]
    found = next(getattr(module, PREFIX + name) for module in MODULES if hasattr(module, PREFIX + name))
    return found


Drawn = tuple[Figure, bool]
"""A figure, and whether it shows anything."""


def draw_figure(name: str, data: Data) -> Drawn:
    """(a figure with its note, whether it shows anything). A figure that shows nothing has a sentence that says so.

    The note names the pairs that must not be ranked, the calls of snakemake, the runs that were disturbed or waited for
    data, and the published results.
    """
    figure = drawing(name)(data)
    if figure is None:
        figure = new_figure(ONE_COLUMN, 0.1)
        add_note(figure, [ALL_CENSORED if data.finished.empty else NO_VALUES])
        return figure, False
    runs = data.runs
    lines = [parity_note(data.comparisons), *mixed_calls(runs), *disturbances(runs), *waiting_sentences(runs)]
    lines += reference_note(figure, data.references)
    add_note(figure, [line for text in lines for line in text.splitlines()])
    return figure, True


_style = partial(matplotlib.style.context, STYLE, after_reset=True)  # a user's matplotlibrc would change the figures


def laid_out(name: str, data: Data) -> Drawn:
    """Draw a figure and lay it out, to be written in any number of formats."""
    with _style():
        figure, shows = draw_figure(name, data)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # otherwise each writing would change the layout slightly
        return figure, shows


def _write(drawn: Drawn, file: Path) -> None:
    """Write a figure in the format of the file's name. If it shows nothing, an SVG's metadata say so."""
    figure, shows = drawn
    description = None if shows else NOTHING_TO_SHOW
    metadata = {".svg": {"Date": None, "Description": description}, ".pdf": {"CreationDate": None}}
    with _style(), written_whole(file) as part:
        figure.savefig(part, format=file.suffix[1:], metadata=metadata.get(file.suffix))
        if file.suffix == ".svg":
            part.write_text(_rounded(part.read_text(encoding="utf-8")), encoding="utf-8")


def save_figure(name: str, data: Data, files: Iterable[Path]) -> None:
    """Draw a figure into one file per format."""
    drawn = laid_out(name, data)
    for file in files:
        _write(drawn, file)


def _rounded(svg: str) -> str:
    """An SVG with coordinates to 1/100 point. It is smaller, and the last digits of a processor don't show in it."""

    def cut(attribute: re.Match) -> str:
        return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])

    return re.sub(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)', cut, re.sub(r"\n +<", "\n<", svg))


def save_figures(data: Data, folder: Path, names: Iterable[str]) -> None:
    """Draw figures of a group into a folder, each in all formats."""
    for name in names:
        save_figure(name, data, [folder / f"{name}.{kind}" for kind in FIGURE_FORMATS])


def figure_differs(draw: Callable[[], Drawn], file: Path) -> bool:
    """Whether the figure in a file differs from the one that is drawn now."""
    with TemporaryDirectory() as folder:
        again = Path(folder, file.name)
        _write(draw(), again)
        return again.read_bytes() != file.read_bytes()


def drawn_by_this_matplotlib(file: Path) -> bool:
    """Whether the installed version of matplotlib drew this figure, according to the file's metadata."""
    return matplotlib.__version__.encode() in file.read_bytes()
