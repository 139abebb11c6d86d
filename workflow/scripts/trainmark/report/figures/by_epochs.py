"""Figures of training times, speed-ups and energy by number of epochs. Lengths are in inches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trainmark.parity.compare import REFUSED
from trainmark.report.figures.axes import draw_dots, epoch_axis, log_axis, shifts_of, time_unit
from trainmark.report.figures.data import Data
from trainmark.report.figures.references import draw_references, reference_epochs
from trainmark.report.figures.style import (
    MOST_ENTRIES,
    ONE_COLUMN,
    TWO_COLUMNS,
    Entry,
    Look,
    Looks,
    add_legend,
    add_note,
    by_framework,
    hollow_entry,
    looks,
    trainer_entries,
    width_of,
)
from trainmark.report.figures.text import place_of, wrapped
from trainmark.tables.tables import are_disturbed, by_trainer, groups, rows_of, timed_runs
from trainmark.trainer import Trainer

HEIGHT, PANEL_HEIGHT = 2.1, 1.55
"""Of a single axis with its labels, and of one of several."""

PANEL_WIDTH = 1.6
"""The least width of one of several axes."""

ENERGY_UNITS = (("MJ", 1e6), ("kJ", 1e3))


def draw_training_time(data: Data) -> Figure | None:
    """Training time by number of epochs. Each dot is a run; hollow dots are disturbed runs; lines join medians; bars:
    range over repeats.

    Training time includes compilation. Lines join only runs that were trained in the same call of snakemake. Disturbed
    runs enter a median only if all of its runs were disturbed; no line joins such a median, a hollow mark, with others.
    Dots and bars are moved aside by up to 3 % of their number of epochs.
    """
    unit, seconds = time_unit(data.finished["training_seconds"].max())
    return _draw_runs(data, "training_seconds", "training time", (unit, seconds))


def draw_speed_up(data: Data) -> Figure | None:
    """Speed-up by number of epochs: training time of the baseline divided by that of the trainer, from pairs of runs.
    Bars: 95 % interval; a hollow mark has too few pairs for one.

    Trainers that are not ranked against the baseline are left out and named. Marks and bars are moved aside by up to 3
    % of their number of epochs.
    """
    is_baseline = [row["baseline"] == Trainer.of(row).name for row in rows_of(data.speed_ups)]
    table = data.speed_ups[~np.array(is_baseline, bool)]
    refused = [trainer.name for trainer, _ in by_trainer(table[table["parity"].isin(REFUSED)])]
    table = table[table["ratio"].notna()]
    if table.empty:
        return None
    sheet = _new_sheet(data, table)
    for axis, trainer, look, shift in sheet.trainers():
        _draw_speed_ups(axis, dict(by_trainer(table))[trainer].sort_values("epochs"), look, shift)
    for axis in sheet.axes:
        axis.axhline(1, color="black", linewidth=0.8)
    values = [1, *table[["ratio", "low", "high"]].to_numpy(float).ravel()]
    baselines = " and ".join(table["baseline"].unique())
    without = [hollow_entry("too few pairs for an interval")] if table["low"].isna().any() else []
    _finish(sheet, table["epochs"], values, f"speed-up over {baselines} (ratio)", without)
    add_note(sheet.figure, [f"Not ranked against the baseline: {', '.join(refused)}"] if refused else [])
    return sheet.figure


def draw_energy(data: Data) -> Figure | None:
    """Energy of the training by number of epochs, where it was measured. Each dot is a run; hollow dots are disturbed
    runs; lines join medians; bars: range over repeats.

    Lines join only runs that were trained in the same call of snakemake. Disturbed runs enter a median only if all of
    its runs were disturbed; no line joins such a median, a hollow mark, with others. Dots and bars are moved aside by
    up to 3 % of their number of epochs.
    """
    most = data.finished["training_joules"].max()
    unit, joules = next(((name, joules) for name, joules in ENERGY_UNITS if most >= 2 * joules), ("J", 1))
    return _draw_runs(data, "training_joules", "energy of training", (unit, joules))


# --- parts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sheet:
    """A figure with one axis, or with one for each device and loop. panels: the looks of the trainers of each axis."""

    figure: Figure
    axes: list[Axes]
    panels: list[Looks]
    shifts: dict[str, float]
    entries: list[Entry]
    axis_width: float

    def trainers(self) -> Iterable[tuple[Axes, Trainer, Look, float]]:
        """Yield (its axis, a trainer, its look, the factor that moves its dots aside)."""
        for axis, styles in zip(self.axes, self.panels, strict=True):
            for trainer, look in styles.items():
                yield axis, trainer, look, self.shifts[look.label]


def _new_sheet(data: Data, table: pd.DataFrame) -> Sheet:
    """An empty figure for the trainers of a table."""
    drawn = {trainer for trainer, _ in by_trainer(table)}
    styles = {trainer: look for trainer, look in looks(data).items() if trainer in drawn}
    panels, own = {"": styles}, ONE_COLUMN
    entries = trainer_entries(styles, thin=True)
    if len(styles) > MOST_ENTRIES:
        own, panels = TWO_COLUMNS, {}
        firsts = {
            name: replace(of_name[0], label=name, dashes="-", fill="full")
            for name, of_name in by_framework(looks(data)).items()
        }
        for trainer in sorted(styles, key=lambda trainer: (trainer.device, trainer.loop, trainer.workers)):
            panels.setdefault(place_of(trainer), {})[trainer] = firsts[trainer.framework]
        entries = [firsts[name].handle(thin=True) for name in by_framework(styles)]
    width = width_of(data.options, own)
    columns = max(1, min(len(panels), int(width / PANEL_WIDTH)))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(width, HEIGHT if len(panels) == 1 else PANEL_HEIGHT * rows + 0.3))
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel())
    for place, axis in enumerate(axes):
        if place >= len(panels):
            axis.remove()
        else:
            axis.set_title(list(panels)[place], loc="left")
            axis.tick_params(labelbottom=place + columns >= len(panels))
    labels = list(dict.fromkeys(look.label for looks_of_panel in panels.values() for look in looks_of_panel.values()))
    shifts = dict(zip(labels, shifts_of(len(labels), table["epochs"]), strict=True))
    return Sheet(figure, axes[: len(panels)], list(panels.values()), shifts, entries, width / columns - 0.5)


def _finish(sheet: Sheet, epochs: Iterable[int], values: Iterable[float], title: str, entries: Sequence[Entry]) -> None:
    """Scale and name the axes, and write the legend. values: those that are drawn. entries: the last of the legend."""
    epochs, values = list(epochs), list(values)
    lowest = max(axis.get_subplotspec().rowspan.stop for axis in sheet.axes)  # type: ignore[union-attr]
    for axis in sheet.axes:
        epoch_axis(axis, epochs, sheet.axis_width)
        log_axis(axis, "y", values)
        axis.set_xlabel("number of epochs" if axis.xaxis.get_tick_params()["labelbottom"] else "")
        if axis.get_subplotspec().colspan.start == 0:  # type: ignore[union-attr]
            axis.set_ylabel(wrapped(title, (PANEL_HEIGHT if lowest > 1 else HEIGHT) - 0.5))
    add_legend(sheet.figure, [*sheet.entries, *entries])


def _draw_runs(data: Data, column: str, title: str, unit: tuple[str, float]) -> Figure | None:
    """Draw a column of the table of runs by number of epochs; None if no run that is ok has it.

    unit: that of the axis, and how much it is in the unit of the column.
    """
    name, divisor = unit
    runs = data.finished[data.finished[column] > 0]
    if runs.empty:
        return None
    runs = runs.assign(value=runs[column] / divisor)
    sheet, of_trainers = _new_sheet(data, runs), dict(by_trainer(runs))
    for axis, trainer, look, shift in sheet.trainers():
        _draw_trainer(axis, of_trainers[trainer], look, shift)
    published = [draw_references(axis, data.references_by_epoch, column, 1 / divisor) for axis in sheet.axes]
    hollow = "disturbed run" + (", or a median of such" if are_disturbed(runs) else "")
    disturbed = [hollow_entry(hollow)] if (runs["disturbed"] != "").any() else []
    epochs = {*runs["epochs"], *reference_epochs(data.references_by_epoch, column)}
    lines = [line for axis in sheet.axes for line in axis.lines]
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])
    _finish(sheet, epochs, values, f"{title} ({name})", [*disturbed, *published[0]])
    return sheet.figure


def _draw_trainer(axis: Axes, runs: pd.DataFrame, look: Look, shift: float) -> None:
    """Draw a trainer's runs: medians and ranges of those whose times count, and a dot for each."""
    timed = timed_runs(runs)
    calls = timed.groupby("epochs")["calls"].agg(lambda calls_of_runs: " ".join(sorted(set(calls_of_runs))))
    timed = timed.assign(calls=timed["epochs"].map(calls), is_disturbed=timed["disturbed"] != "")
    for (_, is_disturbed), alike in groups(timed, ["calls", "is_disturbed"]):
        values = alike.groupby("epochs")["value"].agg(["median", "min", "max"])
        median, ends = values["median"], [values["median"] - values["min"], values["max"] - values["median"]]
        axis.plot(values.index, median, **look.line(thin=True) | (look.dots(hollow=True) if is_disturbed else {}))
        axis.errorbar(values.index * shift, median, yerr=ends, fmt="none", ecolor=look.colour, elinewidth=0.8)
    for disturbed, dots in runs.groupby(runs["disturbed"] != ""):
        draw_dots(axis, dots["epochs"] * shift, dots["value"], **look.dots(hollow=bool(disturbed), size=4))


def _draw_speed_ups(axis: Axes, speed_ups: pd.DataFrame, look: Look, shift: float) -> None:
    """Draw the speed-ups of a trainer with their intervals; those without one are hollow."""
    x, y = speed_ups["epochs"], speed_ups["ratio"]
    lengths = np.nan_to_num([y - speed_ups["low"], speed_ups["high"] - y])
    axis.plot(x, y, **look.line(thin=True))
    axis.errorbar(x * shift, y, yerr=np.clip(lengths, 0, None), fmt="none", ecolor=look.colour, elinewidth=1)
    for hollow, dots in speed_ups.groupby(speed_ups["low"].isna()):
        draw_dots(axis, dots["epochs"] * shift, dots["ratio"], **look.dots(hollow=bool(hollow)))
