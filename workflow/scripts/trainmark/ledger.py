"""Where a run's wall time went: named phases that sum to it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Clock:
    """One timed stretch; `seconds` is set when it ends."""

    seconds: float = 0.0


class Ledger:
    """Seconds by phase, on a monotonic clock, from `start` (a `time.monotonic()` value) on.

    Whoever times work on a device synchronizes it before the phase ends. Phases don't nest: RuntimeError.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._seconds: dict[str, float] = {}
        self._open: str | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[Clock]:
        """Add the time of the body to the phase `name`, and leave it in the clock that this gives."""
        if self._open:
            raise RuntimeError(f"phase {name!r} began inside phase {self._open!r}: a second would count twice")
        self._open, begin, clock = name, time.monotonic(), Clock()
        try:
            yield clock
        finally:
            self._open = None
            clock.seconds = time.monotonic() - begin
            self.add(name, clock.seconds)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere, such as before this ledger could be imported."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def close(self) -> tuple[dict[str, float], float]:
        """(seconds by phase, wall seconds); the phase "other" is what no named phase took."""
        wall_seconds = time.monotonic() - self._start
        phases = dict(self._seconds)
        phases["other"] = wall_seconds - sum(phases.values())
        return phases, wall_seconds
