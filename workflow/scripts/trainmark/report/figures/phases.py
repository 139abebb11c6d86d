"""The figure of phases: where the wall time goes. Lengths are in inches."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from trainmark.report.figures.axes import draw_dots, name_rows, time_unit
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import OF_DISTURBED, TWO_COLUMNS, Look, add_legend, hollow_entry, looks_of, width_of
from trainmark.report.figures.text import short_name, wrapped
from trainmark.tables.tables import are_disturbed, select_trainer, timed_runs
from trainmark.trainer import Trainer

AREAS = {
    "start and import": (("start", "import"), "#DDDDDD"),
    "data": (("data_load", "transfer"), "#00664A"),
    "build and compilation": (("build", "compilation"), "#F5BE5B"),
    "first epoch": (("warm_up",), "#9E3A00"),
    "steady epochs": (("steady",), "#8CC9F0"),
    "evaluation": (("evaluation",), "#803C68"),
    "other": (("checkpoint", "other"), "#FFFFFF"),
}
"""The areas of a bar: their phases and colours, which are light and dark in turn, so that they differ in grey, too."""

LEFT_OUT = ("device_wait", "peak")
"""The phases that no bar contains: waiting for the device, and the measurement of the peak, which trains nothing."""

NARROW = 4.5
"""A figure of this width has 2 panels, and a wider one 4, each for a number of epochs."""


def draw_phases(data: Data) -> Figure | None:
    """Where the wall time goes: median of each phase by trainer and number of epochs. Bars: range of the wall time over
    repeats.

    Waiting for the device and the measurement of the peak are left out. Disturbed runs are left out, too, unless all
    runs of a median were disturbed; then a hollow mark stands at the end of the bar. Of many numbers of epochs, a
    figure of one column shows 2, and a wider one 4.
    """
    if data.finished.empty:
        return None
    runs = with_areas(timed_runs(data.finished))
    settings, width = sorted(runs["epochs"].unique()), width_of(data.options, TWO_COLUMNS)
    panels = 4 if width > NARROW else 2
    settings = [settings[i] for i in sorted(set(np.linspace(0, len(settings) - 1, panels).round().astype(int)))]
    trainers = list(looks_of(runs))
    figure = Figure(figsize=(width, 1))
    axes = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    height = name_rows(axes[0], [short_name(trainer) for trainer in trainers], 0.3 * width)
    figure.set_size_inches(width, height + 0.8)
    for axis, epochs in zip(axes, settings, strict=True):
        _draw_stacks(axis, runs[runs["epochs"] == epochs], trainers, 0.65 * width / len(settings))
        axis.set_title(f"{epochs} epoch{'s' if epochs > 1 else ''}")
    disturbed = [hollow_entry(OF_DISTURBED)] if are_disturbed(runs) else []
    add_legend(figure, [*(Patch(label=name, **_look(name)) for name in AREAS), *disturbed])
    return figure


def with_areas(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with a column for each of AREAS, and their wall time without LEFT_OUT as `counted`; all in seconds."""
    columns = {name: [f"phases.{phase}" for phase in phases] for name, (phases, _) in AREAS.items()}
    counted = runs["wall_seconds"] - runs[[f"phases.{phase}" for phase in LEFT_OUT]].sum(axis=1)
    return runs.assign(**{name: runs[phases].sum(axis=1) for name, phases in columns.items()}, counted=counted)


def _look(area: str) -> dict:
    """How an area is drawn. Its thin dark edge shows light ones on white."""
    return {"facecolor": AREAS[area][1], "edgecolor": "#222222", "linewidth": 0.3}


def _draw_stacks(axis: Axes, runs: pd.DataFrame, trainers: list[Trainer], width: float) -> None:
    """Draw a row of stacked medians for each trainer. runs: those of one number of epochs. width: about the axis's."""
    unit, seconds = time_unit(runs["counted"].max())
    for row, trainer in enumerate(trainers):
        group = select_trainer(runs, trainer)
        if group.empty:
            continue
        left = 0.0
        for area in AREAS:
            length = group[area].median() / seconds
            axis.barh(row, length, left=left, height=0.7, **_look(area))
            left += length
        wall = group["counted"] / seconds
        ends = [[wall.median() - wall.min()], [wall.max() - wall.median()]]
        axis.errorbar([wall.median()], [row], xerr=ends, fmt="none", ecolor="black", elinewidth=1)
        if are_disturbed(group):
            draw_dots(axis, [wall.median()], [row], **Look("", "black", "o").dots(hollow=True))
    axis.set_xlabel(wrapped(f"wall time without waiting and peak ({unit})", width))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=max(2, int(width / 0.28)), steps=[1, 2, 5, 10]))
    axis.grid(visible=False, axis="y")
