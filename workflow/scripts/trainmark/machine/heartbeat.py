"""Detects whether this process was stopped, by a thread that wakes up regularly and notices when it could not."""

import os
import resource
import sys
import threading
import time
from pathlib import Path

OWN_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Counters of the reading thread: nanoseconds on a CPU, nanoseconds in the run queue, number of times run (proc(5))."""

BEAT_SECONDS = 0.05
"""Time between two beats (wake-ups) of the thread."""

GAP_SECONDS = 0.1
"""Shorter gaps are not counted, since timers of a busy machine can be this late."""


class Heartbeat:
    """Counts the seconds for which this process was stopped: it did not run although nothing kept it from running.

    While a process is stopped (SIGSTOP, a debugger, a frozen container), none of its threads runs, and the gap between
    two beats is long. Other explanations of a gap are subtracted: CPU time that a thread used; time in the run queue,
    while other work kept the CPU busy; and waits for Python's global lock, each of which is a voluntary context switch.

    seconds: seconds stopped so far; None if the system does not provide these counters.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._last_beat = time.monotonic()
        self._closed = False
        if OWN_SCHEDSTAT.exists() and hasattr(resource, "RUSAGE_THREAD"):
            self.seconds = 0.0
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def settled_seconds(self) -> float | None:
        """Return `seconds` after waiting briefly for an overdue beat, so that a stop that has just ended is counted."""
        for _ in range(100):
            if self.seconds is None or time.monotonic() - self._last_beat < BEAT_SECONDS + GAP_SECONDS:
                break
            time.sleep(BEAT_SECONDS / 10)
        return self.seconds

    def close(self) -> None:
        """Tell the thread to end; it does so at its next beat."""
        self._closed = True

    def _beat(self) -> None:
        schedstat = os.open(OWN_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        before = self._read_counters(schedstat)
        while not self._closed:
            time.sleep(BEAT_SECONDS)
            now = self._read_counters(schedstat)
            gap, worked, queued, switches = (b - a for a, b in zip(before, now, strict=True))
            unexplained = gap - BEAT_SECONDS - worked - queued / 1e9
            if self.seconds is not None and unexplained - switches * sys.getswitchinterval() > GAP_SECONDS:
                self.seconds += unexplained
            self._last_beat = time.monotonic()
            before = now
        os.close(schedstat)

    @staticmethod
    def _read_counters(schedstat: int) -> tuple[float, float, int, int]:
        """Return (clock, CPU seconds of the process, run queue nanoseconds, voluntary switches of this thread)."""
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        return time.monotonic(), time.process_time(), int(os.pread(schedstat, 100, 0).split()[1]), switches
