"""The figures. Each function `draw_<name>(runs, curves)` draws one, and its docstring is the caption (plan/figures.py).

runs: the rows of one experiment, recipe and dataset in the table of runs.
curves: the whole table of curves.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from trainmark.plan.figures import PREFIX
from trainmark.tables.comparisons import read_comparisons
from trainmark.tables.curves import WITHIN_EPOCH
from trainmark.tables.mixed_environments import disturbances, mixed_calls
from trainmark.tables.tables import groups, select_group
from trainmark.tables.verdicts import parity_note
from trainmark.tables.waiting import waiting_sentences

STYLE: dict[RcKeyType, object] = {
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "trainmark",  # so that drawing a figure again gives the same file
    "pdf.fonttype": 42,  # TrueType, because journals refuse Type 3 fonts
}

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, which colour-blind readers can distinguish; one colour per framework."""

LINE_WIDTHS = (4.5, 2.6, 1.2)
"""In points, by framework. Thick lines are drawn first, so that curves that coincide stay visible."""

DEVICE_STYLES = {"cpu": ("-", "o"), "gpu": ("--", "^")}
"""Line and marker of each device."""

NOTE_COLUMNS = 130
"""Characters per line of a note, in a font of 7 points across a figure of 7.2 inches."""

ALL_CENSORED = "every run diverged or ran out of memory"

NO_ACCURACY = "no accuracy was reported"

ACCURACIES = {"test_accuracy": "test accuracy", "test_top5_accuracy": "test top-5 accuracy"}
"""The columns of accuracies in the table of curves, with their titles."""

TIME_UNITS = (("hours", 3600), ("minutes", 60))


def _looks(runs: pd.DataFrame) -> dict[str, tuple[str, float]]:
    """(colour, line width) of each framework, the same in all figures of an experiment."""
    return {
        name: (COLOURS[i % len(COLOURS)], LINE_WIDTHS[min(i, len(LINE_WIDTHS) - 1)])
        for i, name in enumerate(runs["framework"].unique())
    }


def _label(framework: str, device: str) -> str:
    return f"{framework}, {device}"


def draw_curves(runs: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Test loss and test accuracy after each epoch. Line: median over repeats; band: range over repeats; cross: last
    finite value of a run that diverged; dotted line: mean loss over the training batches. Only the runs with the
    largest number of epochs are drawn, because shorter runs follow the same curves.
    """
    figure = Figure(figsize=(7.2, 3.0))
    axes = figure.subplots(1, 2, sharex=True)
    looks = _looks(runs)
    curves = curves[curves["id"].isin(runs["id"]) & (curves["part"] != WITHIN_EPOCH)]
    curves = curves.replace([np.inf, -np.inf], np.nan)
    longest = _longest(runs)
    for (framework, device), group in groups(longest, ["framework", "device"]):
        group_curves = curves[curves["id"].isin(group["id"])]
        colour, width = looks[framework]
        look = {"color": colour, "linestyle": DEVICE_STYLES[device][0], "linewidth": width}
        for axis, column in zip(axes, ("test_loss", "test_accuracy"), strict=True):
            _draw_band(axis, group_curves, column, look, _label(framework, device))
            _mark_divergence(axis, group_curves, group[group["status"] == "diverged"], column, colour)
        batch_loss = group_curves.groupby("epoch")["batch_loss"].median()
        axes[0].plot(batch_loss.index, batch_loss, color=colour, linestyle=":", linewidth=width / 2)
    for axis, title in zip(axes, ("test loss (dotted: training batches)", "test accuracy"), strict=True):
        axis.set(xlabel="epoch", title=title)
        axis.xaxis.get_major_locator().set_params(integer=True)
    if (curves["test_loss"] > 0).any():
        axes[0].set_yscale("log")
    else:
        _write_message(axes[0], ALL_CENSORED)
    if curves.empty:  # no run completed an epoch
        _write_message(axes[1], ALL_CENSORED)
    axes[1].legend(loc="lower right")
    return figure


def _longest(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of each trainer with its largest number of epochs."""
    return runs[runs["epochs"] == runs.groupby(["framework", "device"])["epochs"].transform("max")]


def draw_accuracy(runs: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Test accuracy by epoch and by training time, including compilation; below it the top-5 accuracy, if there are
    more than 5 classes. Each line is a run. Each dot is an evaluation, after an epoch or within it. Only the runs with
    the largest number of epochs are drawn.
    """
    longest, looks = _longest(runs), _looks(runs)
    curves = curves[curves["id"].isin(longest["id"])]
    unit, seconds = _time_unit(curves["training_seconds"].max())
    curves = curves.assign(time=curves["training_seconds"] / seconds)
    rows = [column for column in ACCURACIES if curves[column].notna().any()] or list(ACCURACIES)[:1]
    figure = Figure(figsize=(7.2, 0.4 + 2.5 * len(rows)))
    axes = figure.subplots(len(rows), 2, sharex="col", sharey="row", squeeze=False)
    for column, row in zip(rows, axes, strict=True):
        for axis, abscissa in zip(row, ("epochs_trained", "time"), strict=True):
            for (framework, device), group in groups(longest, ["framework", "device"]):
                colour, width = looks[framework]
                look = {"color": colour, "linestyle": DEVICE_STYLES[device][0], "linewidth": width / 2}
                axis.plot([], [], label=_label(framework, device), **look)
                for run_id in group["id"]:
                    points = curves[(curves["id"] == run_id) & curves[column].notna()]
                    axis.plot(points[abscissa], points[column], marker=".", markersize=width + 2, alpha=0.7, **look)
            axis.set_title(ACCURACIES[column])
        if (longest["status"] != "ok").all():
            _write_message(row[0], ALL_CENSORED)
        elif curves[column].isna().all():
            _write_message(row[0], NO_ACCURACY)
    axes[-1, 0].set_xlabel("epoch")
    axes[-1, 1].set_xlabel(f"training time, {unit}")
    axes[-1, 1].legend(loc="lower right")
    return figure


def _time_unit(longest_seconds: float) -> tuple[str, int]:
    """The unit for an axis of times, and its seconds: the largest of which the longest time has at least two."""
    return next(((name, seconds) for name, seconds in TIME_UNITS if longest_seconds >= 2 * seconds), ("s", 1))


def _write_message(axis: Axes, text: str) -> None:
    """Write a sentence into an axis that has no curves."""
    axis.text(0.5, 0.5, text, ha="center", transform=axis.transAxes)
    axis.set_yticks([])
    if not axis.has_data():
        axis.set_xticks([])


def _draw_band(axis: Axes, curves: pd.DataFrame, column: str, look: dict, label: str) -> None:
    by_epoch = curves.groupby("epoch")[column]
    median = by_epoch.median()
    marker = "o" if len(median) == 1 else None
    axis.plot(median.index, median, marker=marker, label=label, **look)
    axis.fill_between(median.index, by_epoch.min(), by_epoch.max(), color=look["color"], alpha=0.12, linewidth=0)


def _mark_divergence(axis: Axes, curves: pd.DataFrame, diverged: pd.DataFrame, column: str, colour: str) -> None:
    """Draw a cross at the last finite value of each diverged run."""
    for run_id in diverged["id"]:
        finite = curves[(curves["id"] == run_id) & curves[column].notna()]
        if len(finite):
            axis.plot(finite["epoch"].iloc[-1], finite[column].iloc[-1], "x", color=colour, markersize=8)


def draw_training_time(runs: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Training time by number of epochs, including compilation. Each dot is a run; hollow dots are disturbed runs.
    Lines join the medians of runs that were trained in the same call of snakemake.
    """
    figure = Figure(figsize=(7.2, 3.2))
    axis = figure.subplots()
    looks = _looks(runs)
    runs = runs[runs["status"] == "ok"]  # censored runs stopped early, so their times do not count
    if runs.empty:
        _write_message(axis, ALL_CENSORED)
        return figure
    pairs = list(groups(runs, ["framework", "device"]))
    for i, ((framework, device), group) in enumerate(pairs):
        line, marker = DEVICE_STYLES[device]
        shift = 1.03 ** (i - (len(pairs) - 1) / 2)  # so that dots of different trainers do not overlap
        label, (colour, _) = _label(framework, device), looks[framework]
        axis.plot([], [], color=colour, linestyle=line, linewidth=1, label=label)
        calls = group.groupby("epochs")["calls"].agg(lambda calls_of_runs: " ".join(sorted(set(calls_of_runs))))
        for _, same_calls in groups(group.assign(calls=group["epochs"].map(calls)), ["calls"]):
            median = same_calls.groupby("epochs")["training_seconds"].median()
            axis.plot(median.index * shift, median, color=colour, linestyle=line, linewidth=1)
        for disturbed, dots in group.groupby(group["disturbed"] != ""):
            fill, seconds = "none" if disturbed else colour, dots["training_seconds"]
            axis.plot(dots["epochs"] * shift, seconds, marker, color=colour, markersize=4, alpha=0.7, mfc=fill)
    settings = sorted(runs["epochs"].unique())
    axis.set(xscale="log", yscale="log", xlabel="epochs", ylabel="training time, s")
    axis.set_xticks(settings, [str(setting) for setting in settings], minor=False)
    axis.set_xlim(settings[0] / 1.3, settings[-1] * 1.3)  # otherwise the dots of a single setting would fill the width
    axis.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axis.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, position: f"{value:g}"))
    axis.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _add_note(figure: Figure, note: str) -> None:
    """Write a note below the axes, wrapped to the figure's width; the figure grows by the height of the note."""
    lines = [part for line in note.splitlines() for part in textwrap.wrap(line, NOTE_COLUMNS, subsequent_indent="    ")]
    if lines:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + 0.14 * len(lines))
        text = "\n".join(lines)  # not parsed as mathematics, because a name may contain a $
        figure.supxlabel(text, x=0.01, ha="left", fontsize=7, color="#444444", parse_math=False)


def save_figure(name: str, runs: pd.DataFrame, curves: pd.DataFrame, note: str, files: list[Path]) -> None:
    """Draw a figure from the runs of one group, into one file per format.

    note: the text below the figure; its lines are kept.
    """
    with matplotlib.rc_context(STYLE):
        for file in files:
            # The figure is drawn again for each file, because saving it changes its layout slightly.
            figure = globals()[f"{PREFIX}{name}"](runs, curves)
            _add_note(figure, note)
            dated = {"svg": "Date", "pdf": "CreationDate"}.get(file.suffix[1:])
            figure.savefig(file, metadata={dated: None} if dated else None)


def save_figure_of(name: str, group: Sequence[str], tables: Path, files: list[Path]) -> None:
    """Draw a figure of a group from the tables in a folder, into one file per format.

    The note below the figure names the pairs that must not be ranked, the calls of snakemake, and the runs that were
    disturbed or waited for data.
    With the same version of matplotlib, the same tables give the same files, byte for byte.

    group: experiment, recipe and dataset.
    """
    runs = select_group(pd.read_parquet(tables / "runs.parquet"), group)
    compared = select_group(read_comparisons(tables / "comparisons.csv"), group)
    lines = [parity_note(compared), *mixed_calls(runs), *disturbances(runs), *waiting_sentences(runs)]
    save_figure(name, runs, pd.read_parquet(tables / "curves.parquet"), "\n".join(filter(None, lines)), files)


def figure_differs(name: str, group: Sequence[str], tables: Path, file: Path) -> bool:
    """Whether the figure in a file differs from the one drawn now from the tables."""
    with TemporaryDirectory() as folder:
        again = Path(folder, file.name)
        save_figure_of(name, group, tables, [again])
        return again.read_bytes() != file.read_bytes()


def drawn_by_this_matplotlib(file: Path) -> bool:
    """Whether the installed version of matplotlib drew this figure, according to the file's metadata."""
    return matplotlib.__version__.encode() in file.read_bytes()
