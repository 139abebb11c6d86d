"""Bounds of what a run would have taken without the other work beside it: at least `least_times`, at most its times.

While other work has one of a run's CPUs, at worst the whole run waits: its other threads need what the one on that CPU
computes. So a second of foreign CPU time delays a run by up to a second. It also empties caches, takes memory
bandwidth and slows the clock; DELAY covers both. The run's own CPU time is no bound, because threads that wait for each
other by spinning, such as torch's, use more of it then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from trainmark.machine.disturbance import FOREIGN_LOAD
from trainmark.records.result import steady_epochs

DELAY = 1.5
"""Seconds by which a second of foreign CPU time delays a run at most. `make bench-load` measured up to 1.2."""

MOST_LOAD = 0.6
"""Beside more foreign load than this, in CPUs, a time has no bound: more was not measured."""

LEAST = {name: f"least_{name}" for name in ("training_seconds", "steady_epoch_seconds", "target_seconds")}
"""The columns of the table of runs for the least values of these times, by the columns of the times."""


def load_columns(record: Mapping, target_seconds: float | None) -> dict:
    """The columns of the table of runs on other work: its share of the time of the run's CPUs while the run trained
    (`foreign_share`; None if it was not counted), and LEAST, what the run would have taken at least without it. None
    for a time without a bound: of a run that anything else disturbed, or too much of it.

    target_seconds: when it reached the target accuracy; None if it did not.
    """
    share = _foreign_share(record)
    times = {"foreign_share": share, **dict.fromkeys(LEAST.values())}
    causes = {cause["cause"] for cause in (record["disturbed"] or {"causes": []})["causes"]}
    if causes - {FOREIGN_LOAD} or share is None:
        return times
    training_seconds, steady = record["result"]["training_seconds"], steady_epochs(record["curves"])
    foreign_seconds = sum(_foreign_seconds(record, 0))
    times[LEAST["training_seconds"]] = least_seconds(training_seconds, foreign_seconds)
    times[LEAST["target_seconds"]] = least_seconds(target_seconds, foreign_seconds)
    if steady:
        seconds = [entry["seconds"] for entry in steady]
        foreign_seconds = sum(_foreign_seconds(record, steady[0]["epoch"]))
        least = least_median(seconds, DELAY * foreign_seconds)
        if foreign_seconds <= MOST_LOAD * sum(seconds) and least > 0:
            times[LEAST["steady_epoch_seconds"]] = least
    return times


def _foreign_share(record: Mapping) -> float | None:
    ranks = [record, *record.get("other_ranks", ())]
    held = sum(len(rank["sessions"][-1]["cpus"]) * one["seconds"] for rank in ranks for one in rank["machine"])
    if not held or any(one["foreign_seconds"] is None for rank in ranks for one in rank["machine"]):
        return None
    return float(sum(_foreign_seconds(record, 0)) / held)


def _foreign_seconds(record: Mapping, epoch: int) -> Iterator[float]:
    """The CPU time of other work in each stretch, of all ranks, that ends with this epoch or later."""
    for rank in (record, *record.get("other_ranks", ())):
        yield from (max(one["foreign_seconds"], 0.0) for one in rank["machine"] if one["epochs"][1] >= epoch)


def least_seconds(seconds: float | None, foreign_seconds: float) -> float | None:
    """The least time; None without a time, or beside too much load."""
    if seconds is None or foreign_seconds > MOST_LOAD * seconds:
        return None
    return seconds - DELAY * foreign_seconds


def least_median(seconds: Sequence[float], delay_seconds: float) -> float:
    """The least median of times if a delay of this length is taken from them, divided in any way.

    To lower the n-th smallest value, all up to it must be lowered to at most the same level; that is the largest of
    (sum of the k largest of them - delay) / k. Of an even number of values, each of both middle ones is taken so; and
    their sum falls by at most the delay.
    """
    values = sorted(seconds)

    def level(place: int) -> float:
        sums: Iterable[float] = accumulate(reversed(values[: place + 1]))
        return max((total - delay_seconds) / count for count, total in enumerate(sums, start=1))

    below, above = (len(values) - 1) // 2, len(values) // 2
    of_both = (level(below) + level(above)) / 2
    return of_both if below == above else max(of_both, (values[below] + values[above] - delay_seconds) / 2)
