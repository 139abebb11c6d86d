"""Counts what the machine did while a run was trained, by kernel counters that are read between epochs.

A source may be missing (in a container, in some kernels). Its values are then None and never count as a disturbance.
"""

import os
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from trainmark.machine import nvml
from trainmark.machine.cpus import read_kernel_file, throttle_files, throttled_seconds
from trainmark.machine.heartbeat import Heartbeat
from trainmark.machine.others import Processes, busiest, running_processes

STAT = Path("/proc/stat")
TASKS = Path("/proc/self/task")

COST_SHARE = 0.001
"""The counters are read after an epoch if reading takes at most this fraction of the time since the last read."""

COUNTED = (
    "seconds",
    "cpu_seconds",
    "foreign_seconds",
    "steal_seconds",
    "throttled_seconds",
    "suspended_seconds",
    "stopped_seconds",
)
"""Keys of the values counted in a stretch, in the order of `Watch._counters`. record.schema.json describes each."""


class Watch:
    """Watches the machine. Its values are per stretch: one epoch, or several consecutive ones if they are short.

    cpus: numbers of the CPUs that the run holds.
    gpu: UUID of its GPU, or None.
    """

    def __init__(self, cpus: Sequence[int], gpu: str | None) -> None:
        self._cpus, self._gpu = cpus, gpu
        self._names = {f"cpu{cpu}" for cpu in cpus}
        self._tick = 1 / os.sysconf("SC_CLK_TCK")
        self._throttle_files = throttle_files()
        self._heartbeat: Heartbeat | None = None
        self._first_epoch: int | None = None
        self._before: tuple[float | None, ...] = ()
        self._cost_seconds = 0.0
        self._processes: Processes = {}

    def begin(self, epoch: int) -> None:
        """Begin the first stretch. epoch: the epoch that comes next, 0 for the compilation."""
        self._heartbeat = self._heartbeat or Heartbeat()
        self._processes = running_processes()
        self._first_epoch, self._before = epoch, self._counters()

    def after(self, epoch: int, *, force: bool = False, within: bool = False) -> list[dict]:
        """End the stretch after this epoch and return it (a list of one) if it is time to read the counters; else [].

        force: read the counters even if it is not yet time.
        within: the epoch goes on: the next stretch begins with it.
        """
        if self._first_epoch is None or epoch < self._first_epoch:
            return []
        elapsed_seconds = time.monotonic() - (self._before[0] or 0.0)
        if not force and self._cost_seconds > COST_SHARE * elapsed_seconds:
            return []
        begin = time.monotonic()
        counters = self._counters()
        counts = {
            name: None if before is None or after is None else after - before
            for name, before, after in zip(COUNTED, self._before, counters, strict=True)
        }
        stretch = {
            "epochs": [self._first_epoch, epoch],
            **counts,
            "gpu_processes": nvml.computing_processes(self._gpu) if self._gpu else None,
        }
        self._first_epoch, self._before = epoch if within else epoch + 1, counters
        self._cost_seconds = time.monotonic() - begin
        return [stretch]

    def other_programs(self) -> list[dict]:
        """Return the programs that used most of the CPUs since `begin` (see `busiest`). It reads all processes."""
        return busiest(self._processes, running_processes(), self._cpus)

    def close(self) -> None:
        """Stop watching."""
        if self._heartbeat:
            self._heartbeat.close()

    def _counters(self) -> tuple[float | None, ...]:
        """Read all counters, in the order of COUNTED."""
        stopped_seconds = self._heartbeat.settled_seconds() if self._heartbeat else None
        cpu_seconds, throttled = _cpu_seconds(), throttled_seconds(self._throttle_files)
        suspended_seconds = _suspended_seconds()
        now = time.monotonic()  # read as close as possible to the idle time
        idle_seconds, steal_seconds = self._held_cpus()
        # CPU time that is neither idle, nor steal, nor this process's own is foreign. The kernel's busy time is no
        # alternative: it samples the running task once per tick and misses tasks that sleep at that moment.
        foreign_seconds = None
        if idle_seconds is not None:
            foreign_seconds = now * len(self._cpus) - idle_seconds - steal_seconds - cpu_seconds
        return (
            now,
            cpu_seconds,
            foreign_seconds,
            steal_seconds if idle_seconds is not None else None,
            throttled,
            suspended_seconds,
            stopped_seconds,
        )

    def _held_cpus(self) -> tuple[float | None, float]:
        """Return the held CPUs' seconds of (idle time, steal by a virtual machine's host) since the machine's boot."""
        lines = [line.split() for line in read_kernel_file(STAT).splitlines()]
        ticks_of_cpus = [list(map(int, fields[1:9])) for fields in lines if fields and fields[0] in self._names]
        if len(ticks_of_cpus) < len(self._names):
            return None, 0.0
        idle = sum(ticks[3] + ticks[4] for ticks in ticks_of_cpus)  # idle and iowait, proc(5)
        return idle * self._tick, sum(ticks[7] for ticks in ticks_of_cpus) * self._tick


def _tasks() -> list[str]:
    """Return the ids of this process's threads; [] where the system does not list them."""
    with suppress(FileNotFoundError):
        return os.listdir(TASKS)
    return []


def _cpu_seconds() -> float:
    """Return the CPU time of this process, of the child processes it waited for, and of those that load images now."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() + children.ru_utime + children.ru_stime
    for task in _tasks():  # psutil would look at all processes of the machine
        for child in read_kernel_file(TASKS / task / "children").split():
            with suppress(psutil.Error):  # it has ended since
                times = psutil.Process(int(child)).cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _suspended_seconds() -> float | None:
    """Return the seconds for which the machine was suspended since its boot; None without Linux's clocks.

    This is the difference of two clocks. It is read several times and the smallest value is used, because the process
    may lose its CPU between the two clocks.
    """
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    return min(-time.clock_gettime(time.CLOCK_MONOTONIC) + time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(3))
