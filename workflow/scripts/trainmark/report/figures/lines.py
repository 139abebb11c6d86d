"""Figures of numbers by epochs or workers, a line for each trainer. Lengths are in inches."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trainmark.parity.compare import REFUSED
from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.curves import ACCURACIES, LOSSES
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import MOST_ENTRIES, Looks
from trainmark.report.figures.text import wrapped
from trainmark.tables.frames import by_trainer, groups, select_trainer, split_framework
from trainmark.tables.published import REACHED
from trainmark.tables.remarks import bounded_note
from trainmark.trainer import TRAINER

HEIGHT, HEIGHT_OF_MANY = 1.8, 2.8
"""Height of an axis of few, and of many trainers."""


def draw_training_time(data: Data) -> Figure | None:
    """Training time by number of epochs. Each dot is a run; lines join medians; bars: range over repeats.

    Training time includes compilation. Lines join only runs that were trained in the same call of snakemake. Disturbed
    runs enter a median only if all of its runs were disturbed; no line joins such a median with others.
    Dots and bars are moved aside by up to 3 % of their number of epochs.
    """
    return _draw_medians(data, "training_seconds", "training time")


def draw_speed_up(data: Data) -> Figure | None:
    """Speed-up by number of epochs: training time of the baseline divided by that of the trainer, from pairs of runs.
    Bars: 95 % interval; a hollow mark has too few pairs for one.

    Trainers that are not ranked against the baseline are left out and named. Marks and bars are moved aside by up to 3
    % of their number of epochs.
    """
    rows = data.section.rows("speed_up")
    refused = [trainer.name for trainer, _ in by_trainer(rows[rows["parity"].isin(REFUSED)])]
    rows = rows.dropna(subset="value")
    if rows.empty:
        return None
    baselines = " and ".join(rows["compared_with"].unique())
    figure, axis, looks = _new_sheet(data, rows, f"speed-up over {baselines} (ratio)")
    for trainer, look, shift in scales.shifted(looks, rows["epochs"]):
        marks.line(axis, select_trainer(rows, trainer), look, shift=shift)
    axis.axhline(1, color="black", linewidth=0.8)
    _finish(figure, axis, rows["epochs"], looks, legend.of_hollow(legend.TOO_FEW, rows["low"].isna()))
    legend.add_note(figure, f"Not ranked against the baseline: {', '.join(refused)}" if refused else "")
    legend.add_note(figure, bounded_note(rows))
    return figure


def draw_energy(data: Data) -> Figure | None:
    """Energy of the training by number of epochs, where it was measured. Each dot is a run; hollow dots are disturbed
    runs; lines join medians; bars: range over repeats.

    Lines join only runs that were trained in the same call of snakemake. Disturbed runs enter a median only if all of
    its runs were disturbed; no line joins such a median, a hollow mark, with others. Dots and bars are moved aside by
    up to 3 % of their number of epochs.
    """
    return _draw_medians(data, "training_joules", "energy of training")


def draw_published(data: Data) -> Figure | None:
    """Losses and accuracies that others published, and ours after as many epochs. Line: median over repeats; bars:
    range over repeats.

    Epochs are counted as the source counts them. Of runs that restart the optimizer: the epochs between two restarts,
    and the median of the numbers at the restarts.
    """
    rows = data.section.rows("beside_published")
    metrics = [metric for metric in REACHED if (rows["metric"] == metric).any()]
    if not metrics:
        return None
    columns = min(2, len(metrics))
    references: dict[str, Line2D] = {}
    figure, axes = _grid(len(metrics), data.width(2), columns, HEIGHT - 0.1)
    for axis, metric in zip(axes, metrics, strict=True):
        own, factor = rows[rows["metric"] == metric], 1.0 if metric in LOSSES else 100.0
        epochs = {*own["epochs"]} | marks.references(axis, data.references, metric, factor, references)
        for trainer, look, shift in scales.shifted(data.looks, epochs):
            marks.line(axis, select_trainer(own, trainer).drop_duplicates("epochs"), look, shift=shift, factor=factor)
        scales.log_ticks(axis, epochs, data.width(2) / columns - 0.5)
        if metric in LOSSES:
            scales.log_axis(axis, "y")
        axis.set(xlabel="number of epochs", ylabel=wrapped((LOSSES | ACCURACIES)[metric], HEIGHT - 0.6))
    legend.add(figure, [*legend.of_trainers(data.looks), *references.values()])
    return figure


def draw_scaling(data: Data) -> Figure | None:
    """Speed-up over the fewest workers, parallel efficiency, and the share of communication in a step, by number of
    workers. Bars: 95 % interval, and range of the shares; a hollow mark has too few pairs for an interval. Dotted:
    perfect scaling.

    Parallel efficiency is the speed-up divided by the ratio of the workers. Strong scaling: the time of a steady
    epoch, with the same batch of all workers together. Weak scaling: images/s, with the same batch of each worker.
    Longest runs, from pairs of runs.
    """
    section, metric = data.section, "steady_epoch_seconds"
    kind = "weak" if section.rows("strong_speed_up")["value"].isna().all() else "strong"
    speed_ups = section.rows(f"{kind}_speed_up", metric).dropna(subset="value")
    speed_ups = speed_ups[speed_ups["epochs"] == speed_ups["epochs"].max()]
    if speed_ups.empty:
        return None
    shares = section.rows("median", "communication_share").dropna(subset="value")
    shares = shares.assign(framework=[split_framework(name)[0] for name in shares["framework"]])
    figure, axes = _grid(3, data.width(2), 3, HEIGHT + 0.1)
    named = {one._replace(framework=split_framework(one.framework)[0]).name: one for one in data.looks}
    drawn: Looks = {}
    for (compared_with,), of_trainer in groups(speed_ups, ["compared_with"]):
        first = named[compared_with]
        drawn[first] = data.looks[first]
        same = of_trainer[[*TRAINER, "epochs"]]
        fewest = pd.DataFrame([{"workers": first.workers, "value": 1.0, "low": 1.0, "high": 1.0}])
        efficiencies = section.rows(f"{kind}_efficiency", metric).merge(same)
        marks.line(axes[0], pd.concat([fewest, of_trainer]), drawn[first], "workers")
        marks.line(axes[1], pd.concat([fewest, efficiencies]), drawn[first], "workers", factor=100.0)
        marks.line(axes[2], shares.merge(same), drawn[first], "workers", factor=100.0)
    workers = sorted({trainer.workers for trainer in drawn} | {*speed_ups["workers"]})
    (ideal,) = axes[0].plot(workers, np.divide(workers, workers[0]), ":", color="black", lw=0.8, label="perfect")
    scales.log_axis(axes[0], "y")
    axes[1].set_ylim(0, max(105.0, 1.05 * axes[1].dataLim.ymax))
    axes[2].set_ylim(1.05 * min(0.0, axes[2].dataLim.ymin), 100.0)
    titles = (f"speed-up ({kind} scaling)", "parallel efficiency (%)", "communication (% of a step)")
    for axis, title in zip(axes, titles, strict=True):
        scales.log_ticks(axis, workers, data.width(2) / 3 - 0.5)
        axis.set(xlabel="number of workers", ylabel=title)
    legend.add(figure, [*legend.of_trainers(drawn), ideal, *legend.of_hollow(legend.TOO_FEW, speed_ups["low"].isna())])
    legend.add_note(figure, bounded_note(speed_ups))
    return figure


def _draw_medians(data: Data, metric: str, title: str) -> Figure | None:
    """Draw the medians of a metric, and a dot for each run; None if no run that is ok has it."""
    rows = data.section.rows("median", metric)
    runs = data.runs[(data.runs["status"] == "ok") & (data.runs[metric] > 0)]
    if runs.empty:
        return None
    unit, size = scales.unit_of(rows["unit"].iloc[0], runs[metric].max())
    calls = dict(zip(data.runs["number"].astype(str), data.runs["calls"], strict=True))
    rows = rows[rows["value"] > 0].sort_values("epochs")
    rows["calls"] = [" ".join(sorted({calls[number] for number in text.split()})) for text in rows["run_numbers"]]
    figure, axis, looks = _new_sheet(data, runs, f"{title} ({unit})")
    references: dict[str, Line2D] = {}
    epochs = {*runs["epochs"]} | marks.references(axis, data.references_by_epoch, metric, 1 / size, references)
    for trainer, look, shift in scales.shifted(looks, runs["epochs"]):
        for (_, is_disturbed), own in groups(select_trainer(rows, trainer), ["calls", "disturbed_times"]):
            x, estimates = own["epochs"].to_numpy(float), marks.of_rows(own, 1 / size)
            axis.plot(x, estimates[0], **look.line(thin=True) | (look.dots(hollow=True) if is_disturbed else {}))
            marks.bars(axis, shift * x, estimates, look.colour)
        for is_disturbed, own in select_trainer(runs, trainer).groupby(runs["disturbed"] != ""):
            dots = look.dots(hollow=bool(is_disturbed), size=4)
            marks.dots(axis, own["epochs"] * shift, own[metric] / size, **dots)
    hollow = "disturbed run" + (", or a median of such" if rows["disturbed_times"].any() else "")
    _finish(figure, axis, epochs, looks, [*legend.of_hollow(hollow, runs["disturbed"] != ""), *references.values()])
    return figure


# --- axes ---------------------------------------------------------------------------------------------------------


def _grid(count: int, width: float, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    """(a figure, its axes): so many, in rows of this height."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows + 0.3))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.remove()
    return figure, list(axes[:count])


def _new_sheet(data: Data, table: pd.DataFrame, title: str) -> tuple[Figure, Axes, Looks]:
    """(an empty figure for the trainers of a table, its axis, their looks)."""
    looks = {trainer: look for trainer, look in data.looks.items() if len(select_trainer(table, trainer))}
    are_many = len(looks) > MOST_ENTRIES
    height = HEIGHT_OF_MANY if are_many else HEIGHT
    figure, (axis,) = _grid(1, data.width(2 if are_many else 1), 1, height)
    axis.set(xlabel="number of epochs", ylabel=wrapped(title, height - 0.2))
    return figure, axis, looks


def _finish(figure: Figure, axis: Axes, epochs: Iterable[int], looks: Looks, others: Iterable[Line2D]) -> None:
    """Scale the axis of a sheet, and write the legend of its trainers and others."""
    scales.log_ticks(axis, {*epochs}, figure.get_size_inches()[0] - 0.5)
    scales.log_axis(axis, "y")
    legend.add(figure, [*legend.of_trainers(looks, thin=True), *others])
