"""Where a run's wall time went: named phases that sum to it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.records.record import PHASES

PROCESS_STAT = Path("/proc/self/stat")


def process_start() -> float:
    """When this process was created, on the clock of `time.monotonic`: before the interpreter itself was loaded.

    Linux tells the last tick of 10 ms before it (field 22 of /proc/self/stat, proc(5)): half a tick is added, so that
    this is off by 5 ms at most, and by nothing on average. Elsewhere: now.
    """
    try:
        after_name = PROCESS_STAT.read_text().rpartition(")")[2].split()  # a process's name may hold anything
        created_seconds = (int(after_name[19]) + 0.5) / os.sysconf("SC_CLK_TCK")
        age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - created_seconds
    except (OSError, AttributeError, ValueError, IndexError):
        age_seconds = 0.0
    return time.monotonic() - max(age_seconds, 0.0)


@dataclass
class Clock:
    """One timed stretch; `seconds` is set when it ends."""

    seconds: float = 0.0


def _nothing() -> None:
    """Synchronizes what computes before it returns."""


class PhaseTimes:
    """Seconds by phase, on a monotonic clock, from `start` (a `time.monotonic()` value) on.

    Phases don't nest: RuntimeError. A name that is no phase: KeyError.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._open: tuple[str, float] | None = None
        self._last = "start"

    @contextmanager
    def phase(self, name: str, synchronize: Callable[[], None] = _nothing) -> Iterator[Clock]:
        """Add the time of the body to the phase `name`, and leave it in the clock that this gives.

        synchronize: returns when a device has done all that it was given. It is called before each reading of the
        clock: else what the device still has to do would count as the next phase's.
        """
        if self._open:
            raise RuntimeError(f"phase {name!r} began inside phase {self._open[0]!r}: a second would count twice")
        if name not in self._seconds:
            raise KeyError(name)
        synchronize()
        clock = Clock()
        begin = time.monotonic()
        self._open, self._last = (name, begin), name
        try:
            yield clock
            synchronize()
        finally:
            self._open = None
            clock.seconds = time.monotonic() - begin
            self._seconds[name] += clock.seconds

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere, such as before this module could be imported."""
        self._seconds[name] += seconds

    @property
    def current_phase(self) -> str:
        """The phase under way, or the last one."""
        return self._last

    def close(self) -> tuple[dict[str, float], float]:
        """(seconds by phase, wall seconds) until now. A phase under way counts until now.

        Another thread may call it. In this order of reading, a phase that begins or ends meanwhile is never counted
        twice; at worst its seconds count as "other".
        """
        phases = dict(self._seconds)
        under_way = self._open
        now = time.monotonic()
        if under_way:
            name, begin = under_way
            phases[name] += now - begin
        wall_seconds = now - self._start
        # Measured as the rest, not on a clock of its own: never negative but for the last bit's rounding.
        phases["other"] += max(wall_seconds - sum(phases.values()), 0.0)
        return phases, wall_seconds

    def go_on(self, earlier: Mapping[str, float]) -> float:
        """Put an earlier process's phases in place of this one's, and count on from them. RuntimeError in a phase.

        Returns the seconds from the start until now, which belong to no phase: they were spent on starting again.
        """
        if self._open:
            raise RuntimeError(f"an earlier process's phases can't be taken over inside phase {self._open[0]!r}")
        now = time.monotonic()
        restart_seconds = now - self._start
        self._seconds = dict.fromkeys(PHASES, 0.0) | dict(earlier)
        self._start = now - sum(self._seconds.values())
        return restart_seconds
