"""The figure of speed-up and efficiency by number of workers. Lengths are in inches."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trainmark.report.figures.axes import draw_dots, log_axis
from trainmark.report.figures.data import Data
from trainmark.report.figures.style import (
    TWO_COLUMNS,
    Look,
    add_legend,
    hollow_entry,
    looks,
    trainer_entries,
    width_of,
)
from trainmark.tables.comparisons import COMPARED
from trainmark.tables.scaling import COMMUNICATION, EFFICIENCIES, ESTIMATES, scaling_table, without_variant
from trainmark.tables.tables import groups
from trainmark.trainer import Trainer

HEIGHT = 2.2


def draw_scaling(data: Data) -> Figure | None:
    """Speed-up over the fewest workers, parallel efficiency, and the share of communication in a step, by number of
    workers. Bars: 95 % interval, and range of the shares; a hollow mark has too few pairs for an interval. Dotted:
    perfect scaling.

    Parallel efficiency is the speed-up divided by the ratio of the workers. Strong scaling: the time of a steady
    epoch, with the same batch of all workers together. Weak scaling: images/s, with the same batch of each worker.
    Longest runs, from pairs of runs.
    """
    table = scaling_table(data.comparisons, data.runs)
    table = table[(table["metric"] == COMPARED[1]) & table["speed_up"].notna()]
    table = table[table["epochs"] == table["epochs"].max()]
    if table.empty:
        return None
    scaling = "strong" if "strong" in set(table["scaling"]) else "weak"
    table = table[table["scaling"] == scaling]
    width = width_of(data.options, TWO_COLUMNS)
    figure = Figure(figsize=(width, HEIGHT))
    speed_up, efficiency, share = axes = figure.subplots(1, 3)
    styles, drawn = looks(data), {}
    for (framework, device, loop), rows in groups(table, ["framework", "device", "loop"]):
        named = Trainer(framework, device, loop, int(rows["of_workers"].iloc[0]))
        first = next(trainer for trainer in data.trainers if without_variant(trainer) == named)
        drawn[first] = styles[first]
        _draw(speed_up, rows, ESTIMATES, 1.0, styles[first])
        _draw(efficiency, rows, EFFICIENCIES, 100.0, styles[first])
        _draw_shares(share, rows, styles[first])
    workers = sorted({*table["workers"], *table["of_workers"]})
    (ideal,) = speed_up.plot(workers, np.divide(workers, workers[0]), ":", color="black", lw=0.8, label="perfect")
    values = [1.0, workers[-1] / workers[0], *table[[*ESTIMATES]].to_numpy(float).ravel()]
    log_axis(speed_up, "y", values)
    efficiency.set_ylim(0, max(105.0, 105.0 * np.nanmax(table[[*EFFICIENCIES]].to_numpy(float))))
    share.set_ylim(min(0.0, 105.0 * np.nanmin([0.0, *table["communication_min"]])), 100.0)
    for axis in axes:
        log_axis(axis, "x", workers, width / 3 - 0.5)
        axis.set_xticks(workers, [f"{count}" for count in workers])
        axis.set_xlabel("number of workers")
    speed_up.set_ylabel(f"speed-up ({scaling} scaling)")
    efficiency.set_ylabel("parallel efficiency (%)")
    share.set_ylabel("communication (% of a step)")
    without = [hollow_entry("too few pairs for an interval")] if table["low"].isna().any() else []
    add_legend(figure, [*trainer_entries(drawn), ideal, *without])
    return figure


def _draw(axis: Axes, rows: pd.DataFrame, columns: tuple[str, str, str], factor: float, look: Look) -> None:
    """Draw an estimate and its interval by number of workers, from 1 (times factor) at the fewest."""
    rows = rows.sort_values("workers")
    x = np.array([rows["of_workers"].iloc[0], *rows["workers"]], float)
    y, low, high = (factor * np.array([1.0, *rows[name]], float) for name in columns)
    _draw_line(axis, x, (y, low, high), look)
    for is_hollow in (False, True):
        chosen = np.isnan(low) == is_hollow
        if chosen.any():
            draw_dots(axis, x[chosen], y[chosen], **look.dots(hollow=is_hollow))


def _draw_shares(axis: Axes, rows: pd.DataFrame, look: Look) -> None:
    rows = rows.sort_values("workers").dropna(subset=[*COMMUNICATION])
    x, *estimates = (rows[name].to_numpy(float) for name in ("workers", *COMMUNICATION))
    _draw_line(axis, x, [100 * estimate for estimate in estimates], look)
    draw_dots(axis, x, 100 * estimates[0], **look.dots())


def _draw_line(axis: Axes, x: np.ndarray, estimates: Sequence[np.ndarray], look: Look) -> None:
    """Draw values and the bars between their lower and upper ends. estimates: (values, lower ends, upper ends)."""
    y, low, high = estimates
    axis.plot(x, y, **look.line(thin=True))
    lengths = np.clip(np.nan_to_num([y - low, high - y]), 0, None)
    axis.errorbar(x, y, yerr=lengths, fmt="none", ecolor=look.colour, elinewidth=1)
