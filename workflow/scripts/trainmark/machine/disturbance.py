"""Was a run disturbed? Its stretches (watch.py) against limits, which docs/measuring.md explains."""

from collections.abc import Mapping, Sequence

FOREIGN_SHARE = 0.04
"""Of the time of the CPUs held, what others may use."""

FOREIGN_RESOLUTION_SECONDS = 0.01
"""Of each CPU: idle time is told in ticks of 10 ms."""

STOLEN_SHARE = 0.02
"""Of the same time, what the host of a virtual machine may take."""

LOST_SHARE = 0.01
"""Of the time, for how long a run may be stopped or throttled."""

SUSPENDED_SECONDS = 0.1
"""How far the clocks may part: less is the time between reading one and the other."""

WORDS = {
    "foreign load": "other work took {value:.1%} of its CPUs",
    "steal": "the host of this virtual machine took {value:.1%} of its CPUs",
    "throttled": "a quota of CPU time held it up for {value:.1%} of the time",
    "stopped": "it was stopped for {value:.1%} of the time",
    "suspended": "the machine was suspended for {value:.1f} s",
    "foreign GPU work": "{value:.0f} processes computed on its GPU",
}
"""How each cause is told."""


def disturbance(stretches: Sequence[Mapping], cpus: int) -> dict | None:
    """The causes that disturbed a run, as its record keeps them; None where every sign keeps its limit.

    cpus: how many the run held. The compilation (epoch 0) is judged with the epochs, and the epochs by themselves.
    """
    epochs = [stretch for stretch in stretches if stretch["epochs"][1] > 0]
    causes = []
    for cause in WORDS:
        values = [_value(cause, part, cpus) for part in (stretches, epochs)]
        value, limit = max(values, key=lambda of_part: of_part[0] - of_part[1])
        if value > limit:
            hit = [one["epochs"] for one in stretches if (of_one := _value(cause, [one], cpus))[0] > of_one[1]]
            causes.append({"cause": cause, "epochs": hit, "value": value, "limit": limit})
    return {"causes": causes} if causes else None


def _value(cause: str, stretches: Sequence[Mapping], cpus: int) -> tuple[float, float]:
    """(how much of a cause there was in these stretches, its limit)."""

    def total(name: str) -> float:
        return sum(stretch[name] or 0.0 for stretch in stretches)

    seconds = total("seconds") or 1.0
    held_seconds = seconds * cpus
    if cause == "foreign load":
        return total("foreign_seconds") / held_seconds, FOREIGN_SHARE + FOREIGN_RESOLUTION_SECONDS / seconds
    if cause == "steal":
        return total("steal_seconds") / held_seconds, STOLEN_SHARE + FOREIGN_RESOLUTION_SECONDS / seconds
    if cause == "suspended":
        return total("suspended_seconds"), SUSPENDED_SECONDS
    if cause == "foreign GPU work":
        return max((stretch["gpu_processes"] or 0 for stretch in stretches), default=0), 1
    return total(f"{cause}_seconds") / seconds, LOST_SHARE


def cause_in_words(cause: Mapping) -> str:
    """A cause of a record: "other work took 47.0 % of its CPUs, the limit is 3.1 %"."""
    words, value, limit = WORDS[cause["cause"]], cause["value"], cause["limit"]
    format_limit = f"{limit:.1%}" if "%}" in words else f"{limit:g}"
    return f"{words.format(value=value)}, the limit is {format_limit}".replace("%", " %")
