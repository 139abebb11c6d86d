"""Figures of numbers by epochs or workers, a line for each trainer. Lengths are in inches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trainmark.parity.compare import REFUSED
from trainmark.report.figures import legend, marks, scales
from trainmark.report.figures.curves import ACCURACIES, LOSSES
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import MOST_ENTRIES, Look, Looks
from trainmark.report.figures.text import place_of, wrapped
from trainmark.tables.frames import by_trainer, groups, select_trainer, split_framework
from trainmark.tables.published import REACHED
from trainmark.trainer import TRAINER

HEIGHT, PANEL_HEIGHT, PANEL_WIDTH = 1.8, 1.55, 1.6
"""Height of a single axis, and height and least width of one of several."""

MOST_BARS = 8
"""With more published numbers of epochs the axis is linear, and the range is a band alone."""


def draw_training_time(data: Data) -> Figure | None:
    """Training time by number of epochs. Each dot is a run; hollow dots are disturbed runs; lines join medians; bars:
    range over repeats.

    Training time includes compilation. Lines join only runs that were trained in the same call of snakemake. Disturbed
    runs enter a median only if all of its runs were disturbed; no line joins such a median, a hollow mark, with others.
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
    figure, panels, entries = _new_sheet(data, rows, f"speed-up over {baselines} (ratio)")
    for axis, styles in panels.items():
        for trainer, look, shift in scales.shifted(styles, rows["epochs"]):
            marks.line(axis, select_trainer(rows, trainer), look, shift=shift)
        axis.axhline(1, color="black", linewidth=0.8)
    entries += legend.of_hollow(legend.TOO_FEW, rows["low"].isna())
    _finish(figure, [*panels], rows["epochs"], entries)
    legend.add_note(figure, f"Not ranked against the baseline: {', '.join(refused)}" if refused else "")
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
    """Losses and accuracies that others published, and ours after as many epochs. Line: median over repeats; bars and
    band: range over repeats.

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
        has_bars = len(epochs) <= MOST_BARS
        for trainer, look, shift in scales.shifted(data.looks, epochs):
            ours = select_trainer(own, trainer).drop_duplicates("epochs").sort_values("epochs")
            x, estimates = ours["epochs"].to_numpy(float) * (shift if has_bars else 1.0), marks.of_rows(ours, factor)
            marks.band(axis, x, estimates, look.colour, **look.line(thin=True) | look.dots(size=4))
            if has_bars:
                marks.bars(axis, x, estimates, look.colour)
        if has_bars:
            scales.log_ticks(axis, epochs, data.width(2) / columns - 0.5)
        else:
            axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
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
    figure, panels, entries = _new_sheet(data, runs, f"{title} ({unit})")
    epochs = {*runs["epochs"]}
    references: dict[str, Line2D] = {}
    for axis, styles in panels.items():
        epochs |= marks.references(axis, data.references_by_epoch, metric, 1 / size, references)
        for trainer, look, shift in scales.shifted(styles, runs["epochs"]):
            for (_, is_disturbed), own in groups(select_trainer(rows, trainer), ["calls", "disturbed_times"]):
                x, estimates = own["epochs"].to_numpy(float), marks.of_rows(own, 1 / size)
                axis.plot(x, estimates[0], **look.line(thin=True) | (look.dots(hollow=True) if is_disturbed else {}))
                marks.bars(axis, shift * x, estimates, look.colour)
            for is_disturbed, own in select_trainer(runs, trainer).groupby(runs["disturbed"] != ""):
                dots = look.dots(hollow=bool(is_disturbed), size=4)
                marks.dots(axis, own["epochs"] * shift, own[metric] / size, **dots)
    hollow = "disturbed run" + (", or a median of such" if rows["disturbed_times"].any() else "")
    entries += [*legend.of_hollow(hollow, runs["disturbed"] != ""), *references.values()]
    _finish(figure, [*panels], epochs, entries)
    return figure


# --- axes ---------------------------------------------------------------------------------------------------------


def _grid(count: int, width: float, columns: int, height: float, share: bool = False) -> tuple[Figure, list[Axes]]:
    """(a figure, its axes): so many, in rows of this height. share: whether they have the same x and y axes."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows + 0.3))
    axes = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.remove()
    return figure, list(axes[:count])


def _new_sheet(data: Data, table: pd.DataFrame, title: str) -> tuple[Figure, dict[Axes, Looks], list[legend.Entry]]:
    """(an empty figure for the trainers of a table, the looks of those of each axis, the entries of all in a legend).

    It has one axis, or, for many trainers, one for each device and loop, where frameworks have a look each.
    """
    styles = {trainer: look for trainer, look in data.looks.items() if len(select_trainer(table, trainer))}
    panels, width, entries = {"": styles}, data.width(1), legend.of_trainers(styles, thin=True)
    if len(styles) > MOST_ENTRIES:
        panels, width = {}, data.width(2)
        firsts: dict[str, Look] = {}
        for trainer, look in data.looks.items():
            firsts.setdefault(trainer.framework, replace(look, label=trainer.framework, dashes="-", fill="full"))
        for trainer in sorted(styles, key=lambda trainer: (trainer.device, trainer.loop, trainer.workers)):
            panels.setdefault(place_of(trainer), {})[trainer] = firsts[trainer.framework]
        drawn = dict.fromkeys(firsts[trainer.framework] for trainer in styles)
        entries = [legend.of_look(look, thin=True) for look in drawn]
    columns = max(1, min(len(panels), int(width / PANEL_WIDTH)))
    figure, axes = _grid(len(panels), width, columns, PANEL_HEIGHT if len(panels) > 1 else HEIGHT, share=True)
    for place, (axis, name) in enumerate(zip(axes, panels, strict=True)):
        is_lowest = place + columns >= len(panels)
        axis.tick_params(labelbottom=is_lowest)
        axis.set_title(name, loc="left")
        axis.set_xlabel("number of epochs" if is_lowest else "")
        title_height = PANEL_HEIGHT - 0.5 if len(panels) > columns else HEIGHT - 0.2
        axis.set_ylabel("" if place % columns else wrapped(title, title_height))
    return figure, dict(zip(axes, panels.values(), strict=True)), entries


def _finish(figure: Figure, axes: Sequence[Axes], epochs: Iterable[int], entries: Sequence[legend.Entry]) -> None:
    """Scale the axes of a sheet, and write its legend."""
    columns = axes[0].get_gridspec().ncols  # type: ignore[union-attr]
    scales.log_ticks(axes[0], {*epochs}, figure.get_size_inches()[0] / columns - 0.5)
    scales.log_axis(axes[0], "y", others=axes)
    legend.add(figure, entries)
