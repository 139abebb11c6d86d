"""The CPUs that a process may use, core by core. Standard library only."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

SIBLINGS = "/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
"""The CPUs of one core, as "0,64" or "0-1"."""

CGROUP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


def allowed_cpus() -> list[int]:
    """Numbers of the CPUs that this process may run on, as a scheduler or a container set them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_quota() -> float | None:
    """CPUs' worth of time that a container or a job may use, or None where nothing limits it.

    Control groups lie in one another, and the tightest limit of a group or one above it holds.
    """
    limits = (text_of(folder / "cpu.max") or _version_1(folder) for folder in _control_groups())
    return min(filter(None, map(_cpus_of, limits)), default=None)


def _control_groups() -> Iterator[Path]:
    """Folders of this process's groups that can limit CPU time, and of those above them; versions 1 and 2 of cgroup.

    In a container the path may be the host's: then only the uppermost folder is there, and it is the container's own.
    """
    for line in text_of(CGROUP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = CGROUP_ROOT / "cpu" if controllers else CGROUP_ROOT
        names = Path(path).parts[1:]
        yield from (mount.joinpath(*names[:depth]) for depth in range(len(names) + 1))


def throttle_files() -> list[Path]:
    """Files of this process's control groups that count for how long a quota of CPU time kept them from running."""
    return [file for folder in _control_groups() if (file := folder / "cpu.stat").exists()]


def throttled_seconds(files: Iterable[Path]) -> float | None:
    """Seconds by `throttle_files`: throttled_usec of version 2, throttled_time (ns) of version 1; None without any."""
    found = [re.search(r"^throttled_(usec|time) (\d+)", text_of(file), re.MULTILINE) for file in files]
    counts = [int(match[2]) / (1e6 if match[1] == "usec" else 1e9) for match in found if match]
    return sum(counts) if counts else None


def _version_1(folder: Path) -> str:
    return f"{text_of(folder / 'cpu.cfs_quota_us')} {text_of(folder / 'cpu.cfs_period_us')}"


def _cpus_of(limit: str) -> float | None:
    """CPUs of a limit, "quota period" in microseconds; no limit is "max" (version 2), -1 (version 1) or no file."""
    quota, _, period = limit.strip().partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def text_of(path: Path) -> str:
    """What a file of the kernel says, without its end; empty where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _core_of(cpu: int) -> frozenset[int]:
    """All CPUs of a CPU's core, itself among them."""
    numbers: set[int] = {cpu}
    for part in filter(None, text_of(Path(SIBLINGS.format(cpu=cpu))).split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def allowed_cores() -> dict[int, list[int]]:
    """The cores that this process may use: by the lowest CPU of each, allowed to it or not, the allowed ones.

    Two CPUs of one core share its arithmetic units: what runs on one slows down what runs on the other.
    A quota of CPU time leaves as many whole CPUs as it is worth, at least one: the first ones of `spread`.
    """
    quota = cpu_quota()
    cpus = allowed_cpus()
    cores: dict[int, list[int]] = {}
    for cpu in cpus:
        cores.setdefault(min(_core_of(cpu)), []).append(cpu)
    if quota is None or quota >= len(cpus):
        return cores
    first = spread(cores.values())[: max(int(quota), 1)]
    return {core: [cpu for cpu in its if cpu in first] for core, its in cores.items() if set(its) & set(first)}


def spread(cores: Iterable[Sequence[int]]) -> list[int]:
    """CPUs of cores in the order in which threads should be put on them: one of each core, then the second ones."""
    cores = [list(core) for core in cores]
    depth = max((len(core) for core in cores), default=0)
    return [core[i] for i in range(depth) for core in cores if i < len(core)]
