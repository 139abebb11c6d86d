"""Figures of times and energy."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from trainmark.report.figures.data import Data
from trainmark.report.figures.references import draw_references, reference_epochs
from trainmark.report.figures.style import (
    COLOURS,
    ONE_COLUMN,
    SMALL,
    TWO_COLUMNS,
    Look,
    add_legend,
    draw_dots,
    epoch_axis,
    letter_handles,
    lettered,
    log_axis,
    looks,
    name_rows,
    new_figure,
    time_unit,
    wrapped,
)
from trainmark.tables.formatting import three_digits
from trainmark.tables.tables import PHASE_METRICS, by_trainer, groups, rows_of, select_trainer
from trainmark.trainer import Trainer

HEIGHT = 2.3
"""Of one axis with its labels."""

AXIS_WIDTH = 2.6
"""About that of the axis of a figure of one column."""

ENERGY_UNITS = (("MJ", 1e6), ("kJ", 1e3))

PANELS = 4
"""At most so many numbers of epochs get a panel of their own."""

LEAST_SHARE = 0.01
"""A phase that takes less than this share of every run is drawn as part of the others."""

OTHERS = "others"
"""Column of the phases that are added up."""

AREAS = {
    "phases.start": ("#BBBBBB", ""),
    "phases.device_wait": ("white", "//"),
    "phases.import": ("#56B4E9", "////"),
    "phases.data_load": ("#009E73", ""),
    "phases.build": ("#F0E442", "xx"),
    "phases.transfer": ("#CC79A7", "||"),
    "phases.compilation": ("#D55E00", ""),
    "phases.warm_up": ("#E69F00", "\\\\"),
    "phases.steady": ("#0072B2", ""),
    "phases.evaluation": ("#F0E442", ""),
    "phases.checkpoint": ("#009E73", "--"),
    "phases.peak": ("#D55E00", "xx"),
    "phases.other": ("#56B4E9", "++"),
    OTHERS: ("white", ""),
}
"""Colour and hatch of each phase. In grey, hatches tell colours of the same lightness apart."""


TIMES = {
    "training_seconds": (Look("training time", "cpu", COLOURS[0], "o", 1.2), -0.18),
    "wall_seconds": (Look("wall time", "cpu", COLOURS[1], "s", 1.2), 0.18),
}
"""For each time that has a break-even, how it is drawn and where in its row."""


def draw_training_time(data: Data) -> Figure | None:
    """Training time by number of epochs, including compilation. Each dot is a run; hollow dots are disturbed runs.
    Bars: range over repeats. Lines join the medians of runs that were trained in the same call of snakemake.
    """
    unit, seconds = time_unit(data.finished["training_seconds"].max())
    return _draw_by_epochs(data, "training_seconds", f"training time, {unit}", seconds)


def draw_speed_up(data: Data) -> Figure | None:
    """Speed-up by number of epochs: how many times as fast as the baseline is a trainer? Training time of the baseline
    divided by that of the trainer, from pairs of runs; bars: 95 % interval, with 6 pairs or more. Trainers that must
    not be ranked are left out.
    """
    table = data.speed_ups[data.speed_ups["ratio"].notna()]
    table = table[[row["baseline"] != Trainer.of(row).name for row in rows_of(table)]]
    if table.empty:
        return None
    styles = looks(data.runs)
    trainers = list(by_trainer(table))
    figure = new_figure(ONE_COLUMN, HEIGHT + 0.3)
    axis = figure.subplots()
    for (trainer, group), shift in zip(trainers, _shifts(len(trainers), table["epochs"]), strict=True):
        look, group = styles[trainer], group.sort_values("epochs")
        ends = [group["ratio"] - group["low"], group["high"] - group["ratio"]]
        x, y, lengths = group["epochs"] * shift, group["ratio"], np.clip(np.nan_to_num(ends), 0, None)
        axis.plot(x, y, **look.line(thin=True))
        axis.errorbar(x, y, yerr=lengths, fmt="none", ecolor=look.colour, elinewidth=1)
        draw_dots(axis, x, y, **look.dots())
    axis.axhline(1, color="black", linewidth=0.8)
    epoch_axis(axis, table["epochs"], AXIS_WIDTH)
    log_axis(axis, "y", [1, *table[["ratio", "low", "high"]].to_numpy(float).ravel()])
    baselines = " and ".join(table["baseline"].unique())
    axis.set_ylabel("speed-up (ratio of times)")
    axis.set_title(wrapped(f"Baseline (1): {baselines}", ONE_COLUMN - 0.8), loc="left", fontsize=7)
    add_legend(figure, [styles[trainer].handle(thin=True) for trainer, _ in trainers])
    return figure


def draw_phases(data: Data) -> Figure | None:
    """Where the wall time goes: median of each phase, by trainer and number of epochs. Bars: range of the wall time
    over repeats. Phases below 1 % of all runs are added up. Of more than 4 numbers of epochs, 4 are shown.
    """
    runs = data.finished
    if runs.empty:
        return None
    phases = [name for name in AREAS if name != OTHERS]
    shares = runs[phases].div(runs["wall_seconds"], axis=0).max()
    shown = [name for name in phases if shares[name] >= LEAST_SHARE]
    if others := [name for name in phases if name not in shown]:
        runs, shown = runs.assign(**{OTHERS: runs[others].sum(axis=1)}), [*shown, OTHERS]
    settings = sorted(runs["epochs"].unique())
    settings = [settings[i] for i in sorted(set(np.linspace(0, len(settings) - 1, PANELS).round().astype(int)))]
    trainers = list(looks(runs))
    figure = new_figure(TWO_COLUMNS, 1)
    axes = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    height = name_rows(axes[0], [trainer.name for trainer in trainers], 1.5)
    figure.set_size_inches(TWO_COLUMNS, height + 0.7)
    for axis, epochs in zip(axes, settings, strict=True):
        _draw_stacks(axis, runs[runs["epochs"] == epochs], trainers, shown)
        axis.set_title(f"{epochs} epoch{'s' if epochs > 1 else ''}")
    add_legend(figure, [Patch(label=PHASE_METRICS.get(name, "other phases"), **_area(name)) for name in shown])
    return figure


def draw_break_even(data: Data) -> Figure | None:
    """From how many epochs on is another trainer faster? In the row "A, then B", A is faster with fewer epochs and B
    with more. Bars: 95 % interval, with 6 pairs or more; an arrow: it has no upper end. Wall time also includes the
    start of the process, loading and evaluation. Pairs of which one is always faster are left out.
    """
    table = data.break_even[data.break_even["epochs"].notna()]
    if table.empty:
        return None
    letters = lettered(trainer.name for trainer in looks(data.runs))
    pairs = [_in_order(row["first"], row["second"], row["faster_after"]) for row in rows_of(table)]
    rows = list(dict.fromkeys(pairs))
    figure = new_figure(ONE_COLUMN, 1)
    axis = figure.subplots()
    names = [f"{letters[before]}, then {letters[after]}" for before, after in rows]
    figure.set_size_inches(ONE_COLUMN, name_rows(axis, names, 1.2) + 0.6)
    numbers = table[["epochs", "low", "high"]].astype(float)
    end = 1.5 * numbers.replace(np.inf, np.nan).max().max()
    for pair, metric, of_pair in zip(pairs, table["metric"], numbers.to_numpy(), strict=True):
        look, shift = TIMES[metric]
        _draw_interval(axis, rows.index(pair) + shift, of_pair, look, end)
    log_axis(axis, "x", [*numbers.to_numpy().ravel(), end])
    axis.set_xlabel("number of epochs at which both take as long")
    drawn = [look.handle(thin=True) for metric, (look, _) in TIMES.items() if (table["metric"] == metric).any()]
    used = {name: letter for name, letter in letters.items() if any(name in pair for pair in rows)}
    add_legend(figure, drawn + letter_handles(used))
    return figure


def draw_time_to_accuracy(data: Data) -> Figure | None:
    """Training time until the target accuracy was reached. Dot: median over runs, in which a run that did not reach the
    target counts as longer (Kaplan and Meier); bar: its 95 % interval; an arrow: it has no upper end. In brackets: how
    many runs reached the target.
    """
    table, styles = data.targets, looks(data.runs)
    if table.empty:
        return None
    figure = new_figure(ONE_COLUMN, 1)
    axis = figure.subplots()
    rows = rows_of(table)
    names = [f"{Trainer.of(row).name} ({row['reached']}/{row['runs']})" for row in rows]
    figure.set_size_inches(ONE_COLUMN, name_rows(axis, names, 1.35) + 0.8)
    times = table[["seconds", "low", "high"]].astype(float)
    longest = times.replace(np.inf, np.nan).max().max()
    unit, seconds = time_unit(longest)
    end = 1.15 * longest / seconds if longest > 0 else 1.0
    for place, (row, numbers) in enumerate(zip(rows, times.to_numpy() / seconds, strict=True)):
        _draw_interval(axis, place, numbers, styles[Trainer.of(row)], end)
    axis.set(xlim=(0, 1.05 * end), xlabel=f"training time, {unit}")
    targets = " and ".join(f"{100 * target:g} %" for target in table["target_accuracy"].unique())
    axis.set_title(f"test accuracy of {targets}", loc="left", fontsize=7)
    return figure


def draw_tuning(data: Data) -> Figure | None:
    """What each step of the tuning gained: time per epoch from the stock loop to the tuned loop, as a share of that of
    the stock loop. Each step was timed beside the steps before it, in turn; bars: 95 % interval. A hollow bar is a
    number of threads that was tried and not chosen.
    """
    if data.tuning.empty:
        return None
    tunings = list(by_trainer(data.tuning))
    figure = new_figure(ONE_COLUMN, 1)
    heights = [len(table) + 2 for _, table in tunings]
    axes = figure.subplots(len(tunings), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    height = sum(_draw_waterfall(axis, *tuning) for axis, tuning in zip(axes, tunings, strict=True))
    figure.set_size_inches(ONE_COLUMN, height + 0.3 * len(tunings) + 0.4)
    axes[-1].set_xlabel("time per epoch (stock loop: 1)")
    return figure


def draw_energy(data: Data) -> Figure | None:
    """Energy of the training by number of epochs, where it was measured. Each dot is a run; hollow dots are disturbed
    runs. Bars: range over repeats. Lines join the medians of runs that were trained in the same call of snakemake.
    """
    most = data.finished["training_joules"].max()
    unit, joules = next(((name, joules) for name, joules in ENERGY_UNITS if most >= 2 * joules), ("J", 1))
    return _draw_by_epochs(data, "training_joules", f"energy of training, {unit}", joules)


# --- parts --------------------------------------------------------------------------------------------------------


def _shifts(count: int, epochs: Iterable[int]) -> np.ndarray:
    """Factors that move the dots of trainers apart on a logarithmic axis of epochs, but not into those of the next."""
    settings = np.log(sorted(set(epochs)))
    closest = min(np.diff(settings), default=1.0)
    step = min(0.05, 0.5 * min(closest, 1.0) / count)
    return np.array([np.exp((place - (count - 1) / 2) * step) for place in range(count)])


def _draw_by_epochs(data: Data, column: str, title: str, divisor: float) -> Figure | None:
    """Draw a column of the table of runs by number of epochs; None if no run that is ok has it."""
    runs = data.finished[data.finished[column] > 0]
    if runs.empty:
        return None
    runs = runs.assign(value=runs[column] / divisor)
    styles, trainers = looks(data.runs), list(by_trainer(runs))
    figure = new_figure(ONE_COLUMN, HEIGHT)
    axis = figure.subplots()
    for (trainer, group), shift in zip(trainers, _shifts(len(trainers), runs["epochs"]), strict=True):
        look = styles[trainer]
        calls = group.groupby("epochs")["calls"].agg(lambda calls_of_runs: " ".join(sorted(set(calls_of_runs))))
        for _, same_calls in groups(group.assign(calls=group["epochs"].map(calls)), ["calls"]):
            values = same_calls.groupby("epochs")["value"].agg(["median", "min", "max"])
            x, ends = values.index * shift, [values["median"] - values["min"], values["max"] - values["median"]]
            axis.plot(x, values["median"], **look.line(thin=True))
            axis.errorbar(x, values["median"], yerr=ends, fmt="none", ecolor=look.colour, elinewidth=0.8)
        for disturbed, dots in group.groupby(group["disturbed"] != ""):
            hollow = {"markerfacecolor": "white", "markeredgecolor": look.colour, "markeredgewidth": 0.8}
            style = look.dots(markersize=4, **hollow if disturbed else {})
            draw_dots(axis, dots["epochs"] * shift, dots["value"], **style)
    published = draw_references(axis, data.references, column, 1 / divisor)
    epoch_axis(axis, {*runs["epochs"], *reference_epochs(data.references, column)}, AXIS_WIDTH)
    log_axis(axis, "y", np.concatenate([np.asarray(line.get_ydata(), float) for line in axis.lines]))
    axis.set_ylabel(title)
    add_legend(figure, [styles[trainer].handle(thin=True) for trainer, _ in trainers] + published)
    return figure


def _in_order(first: str, second: str, faster_after: str) -> tuple[str, str]:
    """(the trainer that is faster before the break-even, the one that is faster beyond it)."""
    return (first, second) if faster_after == second else (second, first)


def _draw_interval(axis: Axes, row: float, numbers: np.ndarray, look: Look, end: float) -> None:
    """Draw a dot with its interval into a row; nothing if there is no value.

    numbers: the value, and the ends of its interval; NaN where there is none. end: where an arrow stands for no upper
    end.
    """
    value, low, high = numbers
    if not np.isfinite(value):
        return
    lengths = np.nan_to_num([[value - low], [min(high, end) - value]])
    axis.errorbar([value], [row], xerr=np.clip(lengths, 0, None), fmt="none", ecolor=look.colour, elinewidth=1)
    draw_dots(axis, [value], [row], **look.dots())
    if np.isinf(high):
        draw_dots(axis, [end], [row], marker=">", color=look.colour, markersize=4)


def _draw_waterfall(axis: Axes, trainer: Trainer, table: pd.DataFrame) -> float:
    """Draw the steps of one tuning from top to bottom; return the height that the rows need."""
    steps = rows_of(table)
    stock_seconds = steps[0]["before_epoch_seconds"]
    tuned_seconds = [stock_seconds, *(step["epoch_seconds"] for step in steps if step["taken"])][-1]
    ends = {"stock": stock_seconds, "tuned": tuned_seconds}
    first, last = (f"{loop} loop, {three_digits(seconds)} s per epoch" for loop, seconds in ends.items())
    names = [first, *(step["text"] for step in steps), last]
    axis.barh([0, len(steps) + 1], [1, tuned_seconds / stock_seconds], height=0.6, color=COLOURS[0])
    for row, step in enumerate(steps, start=1):
        before = step["before_epoch_seconds"] / stock_seconds
        colour = COLOURS[4] if step["ratio"] < 1 else COLOURS[3]
        look: dict[str, Any] = {"color": colour} if step["taken"] else {"facecolor": "white", "edgecolor": colour}
        axis.barh(row, before * (step["ratio"] - 1), left=before, height=0.6, **look)
        if step["low"] is not None:
            lengths = np.clip([[step["ratio"] - step["low"]], [step["high"] - step["ratio"]]], 0, None)
            place = before * step["ratio"]
            axis.errorbar([place], [row], xerr=before * lengths, fmt="none", ecolor="black", elinewidth=1)
    axis.set_title(wrapped(trainer.name, ONE_COLUMN - 1.7), loc="left", fontsize=SMALL)
    farthest = max(stock_seconds, *table["epoch_seconds"], *(table["high"] * table["before_epoch_seconds"]).dropna())
    axis.set_xlim(0, 1.05 * farthest / stock_seconds)
    return name_rows(axis, names, 1.5)


def _area(phase: str) -> dict:
    """How the area of a phase is drawn. phase: a key of AREAS."""
    colour, hatch = AREAS[phase]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "#222222", "linewidth": 0.3}


def _draw_stacks(axis: Axes, runs: pd.DataFrame, trainers: list[Trainer], phases: list[str]) -> None:
    """Draw a row of stacked medians for each trainer; runs: those of one number of epochs."""
    unit, seconds = time_unit(runs["wall_seconds"].max())
    for row, trainer in enumerate(trainers):
        group = select_trainer(runs, trainer)
        if group.empty:
            continue
        left = 0.0
        for phase in phases:
            width = group[phase].median() / seconds
            axis.barh(row, width, left=left, height=0.6, **_area(phase))
            left += width
        wall = group["wall_seconds"] / seconds
        ends = [[wall.median() - wall.min()], [wall.max() - wall.median()]]
        axis.errorbar([wall.median()], [row], xerr=ends, fmt="none", ecolor="black", elinewidth=1)
    axis.set(xlabel=f"wall time, {unit}")
    axis.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    axis.grid(visible=False, axis="y")
