"""What the machine did while a run was trained: counters of the kernel, read between epochs.

Each source may be missing (another system, a container): its figures are None then, and nobody is told off by them.
"""

import os
import resource
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainmark.machine import nvml
from trainmark.machine.cpus import text_of, throttle_files, throttled_seconds
from trainmark.machine.heartbeat import Heartbeat

STAT = Path("/proc/stat")
TASKS = Path("/proc/self/task")
PRESSURE = Path("/proc/pressure/cpu")
FREQUENCY = "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"

COST_SHARE = 0.001
"""The counters are read after an epoch if that takes at most this share of the time since they were last read."""

COUNTED = (
    "seconds",
    "cpu_seconds",
    "queued_seconds",
    "involuntary_switches",
    "foreign_seconds",
    "steal_seconds",
    "throttled_seconds",
    "suspended_seconds",
    "stopped_seconds",
    "pressure_seconds",
)
"""What a stretch counts (record.schema.json describes each), in the order of `Watch._counters`."""


class Watch:
    """Watches the machine from stretch to stretch: one epoch, or several where they are short.

    cpus: numbers of the CPUs that the run holds. gpu: UUID of its GPU, or None.
    """

    def __init__(self, cpus: Sequence[int], gpu: str | None) -> None:
        self._cpus, self._gpu = cpus, gpu
        self._names = {f"cpu{cpu}" for cpu in cpus}
        self._tick = 1 / os.sysconf("SC_CLK_TCK")
        self._throttle_files = throttle_files()
        self._queued: dict[str, int] = {}
        self._queued_seconds = 0.0
        self._heartbeat: Heartbeat | None = None
        self._first_epoch: int | None = None
        self._before: tuple[float | None, ...] = ()
        self._cost_seconds = 0.0

    def begin(self, epoch: int) -> None:
        """Begin the first stretch: `epoch` comes next, 0 for the compilation."""
        self._heartbeat = self._heartbeat or Heartbeat()
        self._next_stretch(epoch, self._counters())

    def after(self, epoch: int, *, force: bool = False) -> list[dict]:
        """The stretch that ends with this epoch, if it is time to read the counters; else nothing.

        force: read the counters whatever it costs.
        """
        if self._first_epoch is None or epoch < self._first_epoch:
            return []
        since_seconds = time.monotonic() - (self._before[0] or 0.0)
        if not force and self._cost_seconds > COST_SHARE * since_seconds:
            return []
        begin = time.monotonic()
        counters = self._counters()
        counts = {
            name: None if a is None or b is None else b - a
            for name, a, b in zip(COUNTED, self._before, counters, strict=True)
        }
        stretch = {
            "epochs": [self._first_epoch, epoch],
            **counts,
            "frequency_mhz": _frequency_mhz(self._cpus),
            "gpu_processes": nvml.computing_processes(self._gpu) if self._gpu else None,
        }
        self._next_stretch(epoch + 1, counters)
        self._cost_seconds = time.monotonic() - begin
        return [stretch]

    def close(self) -> None:
        """Stop watching."""
        if self._heartbeat:
            self._heartbeat.close()

    def _next_stretch(self, epoch: int, counters: tuple[float | None, ...]) -> None:
        self._first_epoch, self._before = epoch, counters

    def _counters(self) -> tuple[float | None, ...]:
        stopped_seconds = self._heartbeat.settled_seconds() if self._heartbeat else None
        cpu_seconds, queued_seconds, throttled = (
            _cpu_seconds(),
            self._queued_now(),
            throttled_seconds(self._throttle_files),
        )
        suspended_seconds = _suspended_seconds()
        now = time.monotonic()  # as near as can be to the reading of the idle time
        idle_seconds, steal_seconds = self._held_cpus()
        # What is neither idle nor stolen nor this process's own is somebody else's. Not by the time that the kernel
        # counts as busy: it asks only every tick who is running, and misses whoever sleeps then.
        others = None if idle_seconds is None else now * len(self._cpus) - idle_seconds - steal_seconds - cpu_seconds
        return (
            now,
            cpu_seconds,
            queued_seconds,
            resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
            others,
            steal_seconds if idle_seconds is not None else None,
            throttled,
            suspended_seconds,
            stopped_seconds,
            _pressure_seconds(),
        )

    def _held_cpus(self) -> tuple[float | None, float]:
        """Seconds that the held CPUs were (idle, stolen by the host of a virtual machine) since the machine's boot."""
        lines = [line.split() for line in text_of(STAT).splitlines()]
        found = [list(map(int, fields[1:9])) for fields in lines if fields and fields[0] in self._names]
        if len(found) < len(self._names):
            return None, 0.0
        idle = sum(ticks[3] + ticks[4] for ticks in found)  # idle and iowait, proc(5)
        return idle * self._tick, sum(ticks[7] for ticks in found) * self._tick

    def _queued_now(self) -> float | None:
        """Seconds that this process's threads have waited in run queues: those that ended count as last seen."""
        try:
            names = os.listdir(TASKS)
        except OSError:
            return None
        now = {name: int(text.split()[1]) for name in names if (text := text_of(TASKS / name / "schedstat"))}
        self._queued_seconds += sum(count - self._queued.get(name, 0) for name, count in now.items()) / 1e9
        self._queued = now
        return self._queued_seconds if now else None


def _cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _suspended_seconds() -> float | None:
    """Seconds for which the machine was suspended since its boot: the smallest of some readings of two clocks, since a
    process may lose its CPU between the clocks.
    """
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    return min(-time.clock_gettime(time.CLOCK_MONOTONIC) + time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(3))


def _pressure_seconds() -> float | None:
    """Seconds in which some task of the machine waited for a CPU (PSI), as the kernel counts it every 2 s."""
    _, found, total = text_of(PRESSURE).partition("\n")[0].rpartition("total=")
    return int(total) / 1e6 if found else None


def _frequency_mhz(cpus: Iterable[int]) -> float | None:
    """The mean frequency of the CPUs now."""
    found = [int(text) / 1000 for cpu in cpus if (text := text_of(Path(FREQUENCY.format(cpu=cpu))))]
    return sum(found) / len(found) if found else None
