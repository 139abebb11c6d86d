"""Checks the times of a record: each sum is that of its parts, and each time lies within those that surround it."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf, isclose

from trainmark.records.resolved import epoch_steps_of
from trainmark.records.result import part_of, untimed

SECONDS = {"rel_tol": 1e-6, "abs_tol": 1e-6}
"""Tolerances of `math.isclose` for two sums of the same times."""

SAME_MOMENT, SAME_START = 0.01, 0.5
"""Seconds between two readings of the clock for one moment, and between a process's last readings on a busy machine."""

RANKS_SHARE, RANKS_SECONDS = 0.1, 0.1
"""Largest difference between the times of two ranks, which end each part of an epoch together: as a share, and in
seconds for each epoch."""

CPU_SHARE, CPU_SECONDS = 0.02, 0.1
"""Largest excess of the CPU time that a machine counts, which does so in ticks of 10 ms: as a share, and in seconds for
each CPU. On busy machines .991 to 1.000 of the time was counted."""

ROUNDING = 1e-6
"""Error of a difference of two moments, in seconds: a host may have been up for a year."""

TICK_SECONDS = 0.01
"""The kernel counts the CPU time of threads that compute at that moment by ticks of at most 10 ms."""


def contradicting_sums(record: Mapping) -> Iterator[str]:
    """Yield each sum of times that is not that of its parts, as a phrase."""
    phases, wall = record["phases_seconds"], record["wall_seconds"]
    if not isclose(total := sum(phases.values()), wall, **SECONDS):
        yield f"its phases sum to {total:.6f} s, but its wall time is {wall:.6f} s"
    others = record.get("other_ranks", [])
    if len(others) != record["run"]["workers"] - 1:
        yield f"it has {record['run']['workers']} workers and {len(others)} other ranks"
    for i, rank in enumerate(others, start=1):
        if not isclose(sum(rank["phases_seconds"].values()), rank["wall_seconds"], **SECONDS):
            yield f"the phases of its rank {i} do not sum to the wall time of that rank"
    sums = {
        part: sum(entry["seconds"] or 0.0 for entry in record["curves"] if entry["part"] == part)
        for part in ("warm_up", "steady")
    } | {"compilation": record["result"]["first_step_seconds"] or 0.0}
    if untimed(record["curves"]):
        sums["warm_up"] = record["result"]["training_seconds"]
    for phase, seconds in sums.items():
        if not isclose(phases[phase], seconds, **SECONDS) and is_settled(record):
            yield f"its phase {phase} is {phases[phase]:.6f} s, but its epochs and first step give {seconds:.6f} s"


def contradicting_times(record: Mapping) -> Iterator[str]:
    """Every time lies within others: epochs in stretches of the machine, these in the time held, and that in the run.

    They are read in other places and at other moments, so who lengthens epochs has to change all of them, and then the
    run holds its CPUs while the next one does (checks/separate_runs.py).
    """
    if not is_settled(record):
        return
    seconds = [record["result"]["first_step_seconds"] or 0.0, *(entry["seconds"] or 0.0 for entry in record["curves"])]
    if part_of(record) is None:  # else a stretch may end within an epoch
        for stretch in record["machine"]:
            first, last = stretch["epochs"]
            if (trained := sum(seconds[first : last + 1])) > stretch["seconds"] + SAME_MOMENT:
                yield (
                    f"its epochs {first} to {last} trained for {trained:.6f} s, but the machine was watched for "
                    f"{stretch['seconds']:.6f} s meanwhile"
                )
    for rank in (record, *record.get("other_ranks", ())):
        yield from _nested(rank)
        yield from _cpu_time(rank)
        if not isclose(_trained(rank), _trained(record), rel_tol=RANKS_SHARE, abs_tol=RANKS_SECONDS * len(seconds)):
            yield f"a rank trained for {_trained(rank):.3f} s, but the first one for {_trained(record):.3f} s"


def _trained(rank: Mapping) -> float:
    phases: Mapping[str, float] = rank["phases_seconds"]
    return phases["warm_up"] + phases["steady"]


def _nested(rank: Mapping) -> Iterator[str]:
    sessions = rank["sessions"]
    times = {
        "it trained": rank["phases_seconds"]["compilation"] + _trained(rank),
        "the machine was watched": sum(stretch["seconds"] for stretch in rank["machine"]),
        "it held its CPUs": sum(session["held_seconds"][1] - session["held_seconds"][0] for session in sessions),
        "it ran": rank["wall_seconds"] + sum(session["restart_seconds"] for session in sessions),
    }
    for (inner, shorter), (outer, longer) in pairwise(times.items()):
        if shorter > longer + (SAME_START if outer == "it ran" else SAME_MOMENT):
            yield f"{inner} for {shorter:.3f} s, but {outer} for {longer:.3f} s"


def _cpu_time(rank: Mapping) -> Iterator[str]:
    """CPUs can't be used for longer than they were held. Where the system counts nothing, foreign_seconds is None."""
    cpus, machine = len(rank["sessions"][-1]["cpus"]), rank["machine"]
    if any(stretch["foreign_seconds"] is None for stretch in machine):
        return
    used = sum(one["cpu_seconds"] + one["foreign_seconds"] + (one["steal_seconds"] or 0.0) for one in machine)
    held = cpus * sum(stretch["seconds"] for stretch in machine)
    if used > held * (1 + CPU_SHARE) + cpus * CPU_SECONDS:
        yield f"its {cpus} CPUs were used for {used:.3f} s, but held for {held:.3f} s"


def contradicting_moments(record: Mapping) -> Iterator[str]:
    """The clock of an epoch ran from its beginning to its end, and no CPU computes for longer than it does."""
    whole = (part_of(record) or inf) >= epoch_steps_of(record)
    resumed = {session["first_epoch"] for session in record["sessions"][1:]}
    for entry, (came, began, done, ended) in zip(
        record["curves"], (one["moments"] for one in record["epochs"]), strict=True
    ):
        low, high = done - began if whole else 0.0, inf if entry["epoch"] in resumed else ended - came
        if not came <= began <= done <= ended or not low - ROUNDING <= entry["seconds"] <= high + ROUNDING:
            took = f"epoch {entry['epoch']} took {entry['seconds']:.6f} s"
            yield f"{took}, but its moments allow {low:.6f} to {high:.6f} s"
    for rank, one in enumerate([record, *record.get("other_ranks", ())]):
        cpus = max(len(session["cpus"]) for session in one["sessions"])
        for epoch, measured in enumerate(one["epochs"], start=1):
            seconds = measured["moments"][3] - measured["moments"][1]
            if epoch not in resumed and measured["cpu_seconds"] > (1 + CPU_SHARE) * cpus * (seconds + TICK_SECONDS):
                used = f"in epoch {epoch} rank {rank} used {measured['cpu_seconds']:.3f} s of CPU time"
                yield f"{used} in {seconds:.3f} s, but held {cpus} of the CPUs"


def is_settled(record: Mapping) -> bool:
    """Whether the run ended between two steps. One that ran out of memory may have ended within a step."""
    return bool(record["status"] != "out_of_memory")
