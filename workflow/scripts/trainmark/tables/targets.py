"""Time to accuracy: when does a run reach the target accuracy that its config set before it was trained?

A run that never reaches the target is not left out, because then a trainer that seldom reaches it would look fast. Its
time is known to be longer than its training (it is censored), and the median is that of Kaplan and Meier (1958, Journal
of the American Statistical Association 53, 457-481).
"""

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd

from trainmark.tables.formatting import why_absent
from trainmark.tables.frames import SETTING, groups, longest_runs, number, timed_runs
from trainmark.tables.paired import LEVEL


def times_to_accuracy(runs: pd.DataFrame) -> Iterator[dict]:
    """Yield rows of numbers on the target accuracy of each trainer, of its runs with the largest number of epochs: the
    median time to it, how many runs reached it, and, if all did, the mean of their epochs.

    Times are of the `timed_runs`. `high` is infinite if the interval has no end.
    """
    has_times = runs["target_epochs"].isna() | runs["target_seconds"].notna()
    for values, longest in groups(longest_runs(runs[runs["target_accuracy"].notna() & has_times]), SETTING):
        reached, timed = longest["target_epochs"].dropna(), timed_runs(longest[longest["training_seconds"].notna()])
        own = {"runs": len(longest), "run_numbers": " ".join(map(str, longest["number"]))}
        own |= dict(zip(SETTING, values, strict=True))
        seconds = _median_seconds(timed)
        absent = "not reached" if "ok" in set(longest["status"]) else why_absent(longest["status"])
        about = {"verdict": absent if seconds[0] is None else "", "disturbed_times": any(timed["disturbed"] != "")}
        yield number(own, "median_time_to_accuracy", "target_seconds", "s", seconds, **about)
        yield number(own, "reached", "target_epochs", "1", [len(reached)])
        # As MLPerf summarises the epochs to convergence of its reference runs. The deviation is that of these values
        # themselves, not an estimate for a larger population.
        kept = np.sort(reached)[1:-1]
        if len(reached) == len(longest) and len(kept):
            ends = (kept.mean(), kept.mean() - kept.std(), kept.mean() + kept.std())
            yield number(own, "trimmed_mean", "target_epochs", "epochs", ends)


def _median_seconds(runs: pd.DataFrame) -> tuple[float | None, float | None, float | None]:
    """(median, low, high) of the time to the target. A run that did not reach it counts as longer than its training."""
    from scipy.stats import CensoredData, ecdf  # imported here because it takes half a second

    unreached = runs["target_seconds"].isna()
    if unreached.all():
        return None, None, None
    times = CensoredData.right_censored(runs["target_seconds"].fillna(runs["training_seconds"]), unreached)
    survival = ecdf(times).sf
    with warnings.catch_warnings():  # the interval is not defined where all runs, or none, have reached the target
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = survival.confidence_interval(1 - LEVEL, method="log-log")

    def first(probabilities: np.ndarray) -> float:
        """The first time at which at most half of the runs have not reached the target; infinite if there is none."""
        return min(survival.quantiles[probabilities <= 0.5], default=np.inf)

    median, low, high = map(first, (survival.probabilities, interval.low.probabilities, interval.high.probabilities))
    return median if np.isfinite(median) else None, min(low, median), high
