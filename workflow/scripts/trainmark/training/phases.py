"""The phases of a run: named parts of its wall time, which sum to it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.records.record import PHASES

PROCESS_STAT = Path("/proc/self/stat")


def process_start() -> float:
    """Return when this process was created, before the interpreter was loaded, on the clock of `time.monotonic`.

    Linux rounds this time down to a tick of 10 ms (field 22 of /proc/self/stat, proc(5)). Half a tick is added, so the
    error is at most 5 ms, and 0 on average. On other systems: the current time.
    """
    try:
        after_name = PROCESS_STAT.read_text().rpartition(")")[2].split()  # a process name may contain spaces and ")"
        created_seconds = (int(after_name[19]) + 0.5) / os.sysconf("SC_CLK_TCK")
        age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - created_seconds
    except (OSError, AttributeError, ValueError, IndexError):
        age_seconds = 0.0
    return time.monotonic() - max(age_seconds, 0.0)


@dataclass
class Clock:
    """One timed interval. seconds: its length, set when it ends."""

    seconds: float = 0.0


class PhaseTimes:
    """Seconds spent in each phase, on a monotonic clock.

    start: when the wall time begins, a value of `time.monotonic()`.

    Raises RuntimeError if a phase begins inside another one, and KeyError for an unknown phase.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._open: tuple[str, float] | None = None
        self._current = "start"

    @contextmanager
    def phase(self, name: str, synchronize: Callable[[], object] = lambda: None) -> Iterator[Clock]:
        """Time the body of `with`, and add the time to the phase `name`. Yields a clock that holds it afterwards.

        synchronize: waits until the device has finished all its work. It is called before each reading of the clock;
        otherwise pending work would be counted in the next phase.
        """
        if self._open:
            raise RuntimeError(f"phase {name!r} began inside phase {self._open[0]!r}: its time would be counted twice")
        if name not in self._seconds:
            raise KeyError(name)
        synchronize()
        clock = Clock()
        begin = time.monotonic()
        self._open, self._current = (name, begin), name
        try:
            yield clock
            synchronize()
        finally:
            self._open = None
            clock.seconds = time.monotonic() - begin
            self._seconds[name] += clock.seconds

    def add(self, name: str, seconds: float) -> None:
        """Add seconds measured elsewhere, such as before this module was imported."""
        self._seconds[name] += seconds

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count seconds of one phase in another one."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    @property
    def current_phase(self) -> str:
        """The phase that is open, or the last one that was."""
        return self._current

    def until_now(self) -> tuple[dict[str, float], float]:
        """Return (seconds by phase, wall seconds) so far. An open phase counts up to now.

        May be called from another thread. The values are read in an order that never counts a phase twice if it begins
        or ends meanwhile; at worst its seconds count as "other".
        """
        phases = dict(self._seconds)
        open_phase = self._open
        now = time.monotonic()
        if open_phase:
            name, begin = open_phase
            phases[name] += now - begin
        wall_seconds = now - self._start
        # "other" is the remainder and has no clock of its own. Only rounding could make it negative.
        phases["other"] += max(wall_seconds - sum(phases.values()), 0.0)
        return phases, wall_seconds

    def resume(self, earlier: Mapping[str, float]) -> float:
        """Replace the phases of this process by those of an earlier one, and continue from them.

        Returns the seconds from the start until now. They were spent on restarting and are in no phase.
        """
        now = time.monotonic()
        restart_seconds = now - self._start
        self._seconds = dict.fromkeys(PHASES, 0.0) | dict(earlier)
        self._start = now - sum(self._seconds.values())
        return restart_seconds
