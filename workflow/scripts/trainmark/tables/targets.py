"""Time to accuracy: when does a run reach the target accuracy that its config set before it was trained?

A run that never reaches the target is not left out, because then a trainer that seldom reaches it would look fast. Its
time is known to be longer than its training (it is censored), and the median is that of Kaplan and Meier (1958, Journal
of the American Statistical Association 53, 457-481).
"""

import warnings

import numpy as np
import pandas as pd

from trainmark.tables.paired import LEVEL
from trainmark.tables.tables import GROUP, are_disturbed, groups, longest_runs, timed_runs
from trainmark.trainer import TRAINER

COLUMNS = [
    *GROUP, *TRAINER, "target_accuracy", "runs", "reached", "disturbed_times", "seconds", "low", "high", "epochs_mean",
    "epochs_deviation",
]  # fmt: skip


def targets_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Make the table of times to accuracy: a row per trainer, of its runs with the largest number of epochs.

    Times are of the `timed_runs`; they are missing if too few runs reached the target, and `high` is infinite if the
    interval has no end. Columns are in docs/columns.md.
    """
    rows = []
    timed = runs["target_epochs"].isna() | runs["target_seconds"].notna()
    with_target = longest_runs(runs[runs["target_accuracy"].notna() & timed])
    for values, longest in groups(with_target, [*GROUP, *TRAINER]):
        reached = longest["target_epochs"].dropna()
        # As MLPerf summarises the epochs to convergence of its reference runs. The deviation is that of these values
        # themselves, not an estimate for a larger population.
        kept = np.sort(reached)[1:-1] if len(reached) == len(longest) else np.array([])
        mean, deviation = (kept.mean(), kept.std()) if len(kept) else (None, None)
        counts = [longest["target_accuracy"].iloc[0], len(longest), len(reached)]
        with_times = longest[longest["training_seconds"].notna()]
        counts.append(are_disturbed(with_times))
        rows.append([*values, *counts, *_median_seconds(with_times), mean, deviation])
    numbers = COLUMNS[-5:]
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(numbers, "float64"))


def _median_seconds(runs: pd.DataFrame) -> tuple[float, float, float]:
    """(median, low, high) of the time to the target, in seconds. A run that did not reach it counts as longer."""
    from scipy.stats import CensoredData, ecdf  # imported here because it takes half a second

    runs = timed_runs(runs)
    if runs["target_seconds"].notna().sum() == 0:
        return np.nan, np.nan, np.nan
    unreached = runs["target_seconds"].isna()
    times = CensoredData.right_censored(runs["target_seconds"].fillna(runs["training_seconds"]), unreached)
    survival = ecdf(times).sf
    with warnings.catch_warnings():  # the interval is not defined where all runs, or none, have reached the target
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = survival.confidence_interval(1 - LEVEL, method="log-log")

    def first(probabilities: np.ndarray) -> float:
        """The first time at which at most half of the runs have not reached the target; infinite if there is none."""
        at_most_half = survival.quantiles[probabilities <= 0.5]
        return float(at_most_half[0]) if len(at_most_half) else np.inf

    median, low, high = map(first, (survival.probabilities, interval.low.probabilities, interval.high.probabilities))
    return median if np.isfinite(median) else np.nan, min(low, median), high
