"""Which other programs used a run's CPUs, by name. Command lines are not read, because they may hold secrets."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import psutil

from trainmark.machine.disturbance import MOST_PROGRAMS

LEAST_SHARE = 0.1
"""Programs that used a smaller part of the time of all others are not named."""

LEAST_SECONDS = 0.05
"""Nor are those that used less: times are counted in ticks of 10 ms."""

OTHER_JOBS = "other jobs of this workflow"


class Process(NamedTuple):
    """A process. cpu_seconds: also of the children that it waited for."""

    name: str
    parent: int
    cpu_seconds: float


Processes = Mapping[tuple[int, float], Process]
"""Processes by number and time of creation, since numbers are used again."""


def running_processes() -> Processes:
    """Return the processes that this one may see."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error), process.oneshot():
            name = process.name().partition("/")[0]  # of kernel threads: kworker/0:1
            found[process.pid, process.create_time()] = Process(name, process.ppid(), sum(process.cpu_times()[:4]))
    return found


def busiest(before: Processes, after: Processes, cpus: Iterable[int], own: int | None = None) -> list[dict]:
    """Return the programs that used most CPU time in between, as a record holds them (`disturbed.programs`).

    Left out are this process, all that it started, the chain of processes that started it, and processes that may not
    use these CPUs, such as other runs. Jobs of the same workflow have one name.

    own: number of this process; by default, of the one that calls.
    """
    own = own or os.getpid()
    processes = {number: process for (number, _), process in after.items()}
    starters = set(_line(own, processes))
    workflow = next((one for one in _line(own, processes) if processes[one].name.startswith("snakemake")), None)
    used: Counter[str] = Counter()
    ended: Counter[int] = Counter()
    for key in before.keys() - after.keys():  # its parent counts its time, also that from before
        ended[before[key].parent] += before[key].cpu_seconds  # type: ignore[assignment]
    for key, process in after.items():
        line = _line(key[0], processes)
        if own not in line and key[0] not in starters and _may_use(key[0], cpus):
            earlier = before[key].cpu_seconds + ended[key[0]] if key in before else 0.0
            seconds = process.cpu_seconds - earlier
            used[OTHER_JOBS if workflow in line else process.name] += max(seconds, 0.0)  # type: ignore[assignment]
    least = max(LEAST_SECONDS, LEAST_SHARE * sum(used.values()))
    return [
        {"name": name, "cpu_seconds": seconds} for name, seconds in used.most_common(MOST_PROGRAMS) if seconds >= least
    ]


def _line(number: int, processes: Mapping[int, Process]) -> list[int]:
    """A process, its parent, and so on; as far as they are seen."""
    line: list[int] = []
    while number in processes and number not in line:
        line.append(number)
        number = processes[number].parent
    return line


def _may_use(number: int, cpus: Iterable[int]) -> bool:
    with suppress(AttributeError, OSError):  # macOS binds no processes; or it has ended
        return not os.sched_getaffinity(number).isdisjoint(cpus)
    return True
