"""From how many epochs on is one trainer faster than another?

A training has a fixed part, such as compilation, and a part that grows with the number of epochs. A GPU often has the
larger fixed part and the smaller part per epoch. At the break-even both trainers take the same time. The two parts of
each run give the ratio of its pair at any number of epochs. The break-even is where the estimated ratio is 1, and its
interval is where the ratio's 95 % interval contains 1 (as Fieller 1954, Journal of the Royal Statistical Society B
16(2), 175-185, for normal values).
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.tables.paired import estimate, paired_ratios
from trainmark.tables.tables import GROUP

MOST_EPOCHS = 1e6
"""A break-even is looked for from 1 epoch to this many."""

TIMES = ("training_seconds", "wall_seconds")

NUMBERS = ("fixed_first", "epoch_first", "fixed_second", "epoch_second", "epochs", "low", "high")

COLUMNS = [*GROUP, "first", "second", "metric", "pairs", *NUMBERS, "faster_after", "run_ids"]


def break_even_table(runs: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Make the table of break-evens (docs/columns.md): for each pair of trainers compared, a row for each of TIMES.

    The pairs of runs are those of the comparison of training times with the most epochs. low, high: missing with fewer
    than 6 pairs. From 1 or to infinity if the interval has no other end.
    """
    compared = comparisons[(comparisons["metric"] == "training_seconds") & comparisons["ratio"].notna()]
    compared = compared[~compared["parity"].isin(REFUSED)].sort_values("epochs", kind="stable")
    longest = compared.drop_duplicates([*GROUP, "first", "second"], keep="last").sort_index()
    by_id = runs.set_index("id")
    rows = []
    for row in longest.to_dict("records"):
        ids = row["run_ids"].split()
        for metric in TIMES:
            first, second = (_parts(by_id.loc[of_side], metric) for of_side in (ids[::2], ids[1::2]))
            rows.append(
                {key: row[key] for key in (*GROUP, "first", "second", "run_ids")}
                | {"metric": metric}
                | _break_even(first, second, (row["first"], row["second"]))
            )
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(NUMBERS, "float64"))


def _parts(runs: pd.DataFrame, metric: str) -> np.ndarray:
    """(fixed seconds, seconds per epoch) of each run, as two rows.

    Wall time also has the start of the process and loading, and per epoch evaluation and checkpoints, with the
    compilation of the evaluation. It is taken without the wait for the device and the measurement
    of the peak.
    """
    epoch, total = runs["steady_epoch_seconds"], runs[metric]
    if metric == "wall_seconds":
        epoch = epoch + (runs["phases.evaluation"] + runs["phases.checkpoint"]) / runs["epochs_trained"]
        total = total - runs["phases.device_wait"] - runs["phases.peak"]
    return np.array([total - runs["epochs_trained"] * epoch, epoch])


def _break_even(first: np.ndarray, second: np.ndarray, names: Sequence[str]) -> dict:
    """The break-even of two trainers. first, second: the parts of their runs, pair by pair, shape (2, pairs)."""
    usable = np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0)
    usable &= (first.sum(axis=0) > 0) & (second.sum(axis=0) > 0)  # with outliers, a fixed part may even be negative
    first, second = first[:, usable], second[:, usable]
    if not usable.any():
        return {"pairs": 0, "faster_after": ""}

    def ratios(log_epochs: float) -> np.ndarray:
        counts = np.exp(log_epochs)
        return np.asarray((second[0] + counts * second[1]) / (first[0] + counts * first[1]))

    at = _root(lambda log_epochs: np.log(estimate(ratios(log_epochs).tolist())))
    low, high = (None, None) if at is None else _interval(ratios)
    medians = dict(zip(NUMBERS[:4], (*np.median(first, axis=1), *np.median(second, axis=1)), strict=True))
    faster = names[int(estimate((second[1] / first[1]).tolist()) < 1)]
    return medians | {
        "pairs": int(usable.sum()),
        "epochs": None if at is None else np.exp(at),
        "low": low,
        "high": high,
        "faster_after": "" if at is None else faster,
    }


def _interval(ratios: Callable[[float], np.ndarray]) -> tuple[float | None, float | None]:
    """The numbers of epochs between which the interval of the ratio contains 1; (None, None) for too few pairs."""

    def end_of_ratio(end: int, log_epochs: float) -> float:
        paired = paired_ratios(ratios(log_epochs).tolist())
        return float(np.log(paired.interval()[end])) if paired else 0.0

    if paired_ratios(ratios(0.0).tolist()) is None:
        return None, None
    ends = [_root(partial(end_of_ratio, end)) for end in (0, 1)]
    found = sorted(float(np.exp(end)) for end in ends if end is not None)
    if len(found) == 2:
        return found[0], found[1]
    contains_1 = end_of_ratio(0, 0.0) <= 0 <= end_of_ratio(1, 0.0)  # at 1 epoch
    low = 1.0 if contains_1 or not found else found[0]
    return low, found[0] if contains_1 and found else np.inf


def _root(function: Callable[[float], float]) -> float | None:
    """The natural logarithm of the number of epochs where a function changes its sign; None if it does not."""
    from scipy.optimize import brentq  # imported here because it takes a quarter of a second

    low, high = 0.0, float(np.log(MOST_EPOCHS))
    if function(low) * function(high) >= 0:
        return None
    return float(brentq(function, low, high, xtol=1e-6))
