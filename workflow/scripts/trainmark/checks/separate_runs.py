"""Checks what no two runs of a campaign can share: CPUs at the same time, measured times, losses of other repeats.

A record that was copied to another run, or parts of one, fits its schema and its digests. It does not fit the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise
from math import isfinite

from trainmark.errors import RecordError
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.resolved import batch_size_of
from trainmark.records.step_losses import step_losses

TIMES = "times of epochs"

SHARED = 3
"""Two runs may share fewer values by chance: about one of a million pairs of runs has the same time of an epoch, on a
clock in nanoseconds, and as many the same loss of a step, in float32."""

MOST_RUNS = 100
"""If more runs have the same value, so many of them are compared in pairs, whose number grows with its square."""


def check_separate(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError if two runs held the same CPUs at once, or if one has times or losses of another.

    records: by path.
    """
    for first, second, what in (*_overlapping(records), *_copied(records)):
        raise RecordError(f"{first} and {second} {what}; delete both, and snakemake trains the runs again")


def _overlapping(records: Mapping[str, Mapping]) -> Iterator[tuple[str, str, str]]:
    """Yield two runs that held a CPU or GPU at once; but for disturbed ones, which may have had other locks."""
    held: dict[tuple, list[tuple[float, float, str]]] = {}
    for path, record in records.items():
        ranks = () if record["disturbed"] else (record, *record.get("other_ranks", ()))
        for session in (session for rank in ranks for session in rank["sessions"]):
            begin, end = session["held_seconds"]
            for part in [*session["cpus"], *filter(None, [session["gpu"]])]:
                held.setdefault((session["host"], session["boot_id"], part), []).append((begin, end, path))
    for (host, _, part), times in held.items():
        for (_, end, first), (begin, _, second) in pairwise(sorted(times)):
            if begin < end and first != second:
                what = f"CPU {part}" if isinstance(part, int) else f"the GPU {part}"
                yield first, second, f"say that both held {what} of {host} at once, which a lock allows one run alone"


def _copied(records: Mapping[str, Mapping]) -> Iterator[tuple[str, str, str]]:
    paths: dict[tuple, list[str]] = {}
    for path, record in records.items():
        if record["run"]["framework"] != FRAMEWORK:  # a command reports times and losses as it likes
            for value in _values(record):
                paths.setdefault(value, []).append(path)
    shared: Counter[tuple[str, str, str]] = Counter()
    for (what, count, *_), of_value in paths.items():
        for pair in combinations(of_value[:MOST_RUNS], 2):
            shared[*pair, what] += count
    for (first, second, what), count in shared.items():
        if count >= SHARED and (what == TIMES or _draw_differently(records[first], records[second])):
            yield first, second, f"have the same {what}, which no two runs have"


def _values(record: Mapping) -> Iterator[tuple]:
    """Yield (what, number of values, place, the values) of what a run shares with no other one.

    A digit of a time tells as much as one of a loss, but runs have few times: each counts twice. Losses of 0, infinite
    ones, and test losses that do not change are no run's own.
    """
    run, curves = record["run"], record["curves"]
    if (first_step_seconds := record["result"]["first_step_seconds"]) is not None:
        yield TIMES, 1, 0, first_step_seconds
    tested = Counter(entry["evaluations"]["test"]["loss"] for entry in curves)
    for entry in curves:
        place, test_loss = (run["recipe"], run["dataset"], entry["epoch"]), entry["evaluations"]["test"]["loss"]
        yield TIMES, 2, entry["epoch"], entry["seconds"]
        own = {loss for loss in step_losses(entry) if loss and isfinite(loss)}
        yield "step losses", len(own), *place, entry["step_losses"]
        if tested[test_loss] == 1:
            yield "test losses", 2, *place, test_loss


def _draw_differently(first: Mapping, second: Mapping) -> bool:
    """Whether two runs draw from other seeds, so that no losses are the same.

    From a file of weights, and with all samples in each step, all repeats are the same training.
    """
    if (first["settings"]["seed"], first["run"]["repeat"]) == (second["settings"]["seed"], second["run"]["repeat"]):
        return False
    is_same_start = first["network"]["initial_weights_sha256"] == second["network"]["initial_weights_sha256"]
    return not (is_same_start and batch_size_of(first) == first["dataset"]["samples"]["train"])
