"""Was this process stopped? A thread that beats, and notices when it could not."""

import os
import resource
import sys
import threading
import time
from pathlib import Path

OWN_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Of a thread, in nanoseconds: time on a CPU, time in the run queue; and how often it ran (proc(5))."""

BEAT_SECONDS = 0.05

GAP_SECONDS = 0.1
"""A shorter gap is not counted: timers of a busy machine are that late."""


class Heartbeat:
    """Seconds for which this process did not run although nothing on the machine kept it from it.

    A process that was stopped (SIGSTOP, a debugger, a frozen container) or whose machine stood still has no thread that
    runs. So the gap between two beats is long, no thread worked in it, and the beating one spent it neither in the run
    queue, as it would beside other work, nor waiting for Python's lock, as it would while C code holds it: for that
    lock a thread waits in short waits again and again, each a voluntary context switch.

    seconds: None where the system doesn't tell these of a thread.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._last = time.monotonic()
        self._over = False
        if OWN_SCHEDSTAT.exists() and hasattr(resource, "RUSAGE_THREAD"):
            self.seconds = 0.0
            threading.Thread(target=self._beat_on, name="heartbeat", daemon=True).start()

    def settled_seconds(self) -> float | None:
        """`seconds`, after the beat that is due, if it comes soon: a stop that has just ended counts."""
        for _ in range(100):
            if self.seconds is None or time.monotonic() - self._last < BEAT_SECONDS + GAP_SECONDS:
                break
            time.sleep(BEAT_SECONDS / 10)
        return self.seconds

    def close(self) -> None:
        """End the thread, soon."""
        self._over = True

    def _beat_on(self) -> None:
        queue = os.open(OWN_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        before = self._now(queue)
        while not self._over:
            time.sleep(BEAT_SECONDS)
            now = self._now(queue)
            gap, worked, queued, switches = (b - a for a, b in zip(before, now, strict=True))
            unexplained = gap - BEAT_SECONDS - worked - queued / 1e9
            if self.seconds is not None and unexplained - switches * sys.getswitchinterval() > GAP_SECONDS:
                self.seconds += unexplained
            self._last = time.monotonic()
            before = now
        os.close(queue)

    @staticmethod
    def _now(queue: int) -> tuple[float, float, int, int]:
        """(clock, CPU seconds of the process; of this thread nanoseconds in the run queue, voluntary switches)."""
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        return time.monotonic(), time.process_time(), int(os.pread(queue, 100, 0).split()[1]), switches
