"""Decides whether a run was disturbed: compares what `watch.Watch` counted with limits (see docs/running.md)."""

from collections.abc import Iterable, Mapping, Sequence
from operator import gt

FOREIGN_SHARE = 0.04
"""Largest fraction of the held CPUs' time that other processes may use."""

FOREIGN_RESOLUTION_SECONDS = 0.01
"""Added to the limits of foreign load and steal, per CPU: the kernel counts idle time in ticks of 10 ms."""

STOLEN_SHARE = 0.02
"""Largest fraction of the held CPUs' time that the host of a virtual machine may take (steal)."""

LOST_SHARE = 0.01
"""Largest fraction of the wall time for which a run may be stopped, or throttled."""

SUSPENDED_SECONDS = 0.1
"""Largest allowed suspension. It is the difference of two clocks; reading one after the other takes some time, too."""

FOREIGN_LOAD = "foreign load"

MOST_PROGRAMS = 3
"""The most programs that are named as foreign load."""

WORDS = {
    FOREIGN_LOAD: "other work{programs} took {value:.1%} of its CPUs",
    "steal": "the host of this virtual machine took {value:.1%} of its CPUs",
    "throttled": "a CPU quota throttled it for {value:.1%} of the time",
    "stopped": "it was stopped for {value:.1%} of the time",
    "suspended": "the machine was suspended for {value:.1f} s",
    "foreign GPU work": "{value:.0f} processes computed on its GPU",
}
"""The wording of each cause."""


def disturbance(stretches: Sequence[Mapping], cpus: int) -> dict | None:
    """Return what disturbed a run, as its record holds it (`disturbed`); None if every value is within its limit.

    Each cause is checked twice, with and without the compilation (epoch 0); the larger excess counts.

    stretches: the entries of `machine` in the record.
    cpus: number of CPUs that the run held.
    """
    epochs = [stretch for stretch in stretches if stretch["epochs"][1] > 0]
    causes = []
    for cause in WORDS:
        values_and_limits = [_value_and_limit(cause, part, cpus) for part in (stretches, epochs)]
        value, limit = max(values_and_limits, key=lambda pair: pair[0] - pair[1])
        if value > limit:
            exceeding = [stretch["epochs"] for stretch in stretches if gt(*_value_and_limit(cause, [stretch], cpus))]
            causes.append({"cause": cause, "epochs": exceeding, "value": value, "limit": limit})
    return {"causes": causes} if causes else None


def disturbance_of(ranks: Iterable[Mapping]) -> dict | None:
    """Return what disturbed a run with these ranks: what disturbed the first of those that were (see `disturbance`).

    ranks: the record, which is that of the first rank, and its other_ranks.
    """
    found = (disturbance(rank["machine"], len(rank["sessions"][-1]["cpus"])) for rank in ranks)
    return next(filter(None, found), None)


def with_programs(disturbed: dict | None, programs: list[dict]) -> dict | None:
    """Add to what disturbed a run the programs that used most of the CPUs, if other work did (see `busiest`)."""
    is_load = disturbed and any(cause["cause"] == FOREIGN_LOAD for cause in disturbed["causes"])
    return disturbed | {"programs": programs} if disturbed and is_load and programs else disturbed


def _value_and_limit(cause: str, stretches: Sequence[Mapping], cpus: int) -> tuple[float, float]:
    """Return (value of a cause over these stretches, its limit)."""

    def total(name: str) -> float:
        return sum(stretch[name] or 0.0 for stretch in stretches)

    seconds = total("seconds") or 1.0
    held_seconds = seconds * cpus
    if cause == FOREIGN_LOAD:
        return total("foreign_seconds") / held_seconds, FOREIGN_SHARE + FOREIGN_RESOLUTION_SECONDS / seconds
    if cause == "steal":
        return total("steal_seconds") / held_seconds, STOLEN_SHARE + FOREIGN_RESOLUTION_SECONDS / seconds
    if cause == "suspended":
        return total("suspended_seconds"), SUSPENDED_SECONDS
    if cause == "foreign GPU work":
        return max((stretch["gpu_processes"] or 0 for stretch in stretches), default=0), 1
    return total(f"{cause}_seconds") / seconds, LOST_SHARE


def disturbance_in_words(disturbed: Mapping | None) -> str:
    """Describe what disturbed a run, cause by cause; "" if nothing did."""
    found = disturbed or {"causes": []}
    return " and ".join(cause_in_words(cause, found.get("programs", ())) for cause in found["causes"])


def mostly(programs: Sequence[str]) -> str:
    """Name programs within a sentence, as ", mostly firefox and make"; "" for none."""
    *most, last = programs or [""]
    return f", mostly {', '.join(most)}{' and ' if most else ''}{last}" if last else ""


def cause_in_words(cause: Mapping, programs: Sequence[Mapping] = ()) -> str:
    """Describe a cause of a record, as "other work, mostly firefox, took 47.0 % of its CPUs, the limit is 3.1 %"."""
    words, value, limit = WORDS[cause["cause"]], cause["value"], cause["limit"]
    named = mostly([program["name"] for program in programs])
    format_limit = f"{limit:.1%}" if "%}" in words else f"{limit:g}"
    return f"{words.format(value=value, programs=named and f'{named},')}, the limit is {format_limit}".replace(
        "%", " %"
    )
