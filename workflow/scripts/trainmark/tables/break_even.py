"""From how many epochs on is one trainer faster than another?

A training has a fixed part, such as compilation, and a part that grows with the number of epochs. A GPU often has the
larger fixed part and the smaller part per epoch. At the break-even both trainers take the same time. The two parts of
each run give the ratio of its pair at any number of epochs. The break-even is where the estimated ratio is 1, and its
interval is where the ratio's 95 % interval contains 1 (as Fieller 1954, Journal of the Royal Statistical Society B
16(2), 175-185, for normal values).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from trainmark.tables.frames import columns_of, number
from trainmark.tables.paired import estimate, paired_ratios

MOST_EPOCHS = 1e6
"""A break-even is looked for from 1 epoch to this many."""

TIMES: dict[str, tuple[str, list[str]]] = {
    "training_seconds": ("training_seconds", []),
    "wall_seconds": ("working_seconds", ["phases.evaluation", "phases.checkpoint"]),
}
"""The times that have a break-even: each with its column in the table of runs, and the columns of what an epoch takes
beside training. Wall time also has the start of the process and loading; evaluation includes its compilation."""


def break_evens(runs: pd.DataFrame, ratios: Iterable[Mapping]) -> Iterator[dict]:
    """Yield the number of epochs from which a trainer is faster than another: rows of numbers, for each of TIMES.

    ratios: from `pairs.comparisons`. The pairs of runs are those of the ratio of training times with the most epochs,
        without disturbed runs.
    low, high: missing with fewer than 6 pairs. From 1 or to infinity if the interval has no other end.
    """
    longest: dict[tuple, Mapping] = {}
    for row in ratios:
        pair = row["pair"]
        if row["metric"] == "training_seconds" and row["value"] is not None and pair.family == "trainers":
            names = (pair.group, pair.first, pair.second)
            longest[names] = max(longest.get(names, row), row, key=lambda one: one["epochs"])
    by_number = runs.set_index("number")
    for row in longest.values():
        pair, numbers = row["pair"], np.array(row["run_numbers"].split(), int).reshape(-1, 2)
        numbers = numbers[(by_number["disturbed"][numbers.ravel()] == "").to_numpy().reshape(-1, 2).all(axis=1)]
        sides = by_number.loc[numbers[:, 0]], by_number.loc[numbers[:, 1]]
        for metric, columns in TIMES.items():
            parts = np.array([_parts(of_side, *columns) for of_side in sides])
            usable = np.isfinite(parts).all(axis=(0, 1))
            usable &= (parts.sum(axis=1) > 0).all(axis=0)  # with outliers, a fixed part may even be negative
            if usable.any():
                faster, ends = _break_even(parts[..., usable])
                after, before = (pair.second, pair.first) if faster else (pair.first, pair.second)
                found = number(columns_of(pair.group, after), "break_even", metric, "epochs", ends)
                found |= {"compared_with": before.name, "verdict": "" if ends else "always faster"}
                yield found | {"runs": int(usable.sum()), "run_numbers": " ".join(map(str, numbers.ravel()))}


def _parts(runs: pd.DataFrame, total: str, beside: list[str]) -> list[pd.Series]:
    """(fixed seconds, seconds per epoch) of each run. total, beside: see TIMES."""
    epoch = runs["steady_epoch_seconds"] + runs[beside].sum(axis=1, skipna=False) / runs["epochs_trained"]
    return [runs[total] - runs["epochs_trained"] * epoch, epoch]


def _break_even(parts: np.ndarray) -> tuple[bool, tuple[float | None, ...]]:
    """(whether the second trainer is faster after the break-even, this and, of enough pairs, its interval).

    parts: of their runs, pair by pair, shape (2 trainers, 2 parts, pairs).
    """

    def logs(epochs: float) -> list[float]:
        """The logarithms of the ratio, and of the ends of its interval, at a number of epochs."""
        first, second = parts[:, 0] + epochs * parts[:, 1]
        paired = paired_ratios(second / first)
        return [float(np.log(end)) for end in (estimate(second / first), *(paired.interval() if paired else ()))]

    at_1 = logs(1.0)
    at, *ends = (_root(logs, place) for place in range(len(at_1)))
    interval: list[float] = []
    if at and ends:
        found, contains_1 = sorted(filter(None, ends)), at_1[1] <= 0 <= at_1[2]
        interval = [*([1.0] if contains_1 or not found else []), *found, np.inf][:2]
    return estimate(parts[1, 1] / parts[0, 1]) < 1, (at, *interval) if at else ()


def _root(logs: Callable[[float], list[float]], place: int) -> float | None:
    """The number of epochs where one of the logarithms changes its sign; None if it does not."""
    from scipy.optimize import brentq  # imported here because it takes a quarter of a second

    if logs(1.0)[place] * logs(MOST_EPOCHS)[place] >= 0:
        return None
    return float(np.exp(brentq(lambda log: logs(np.exp(log))[place], 0.0, np.log(MOST_EPOCHS), xtol=1e-6)))
