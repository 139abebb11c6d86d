"""Checks that a run's clock is read only after the device has finished its work."""

import time

from trainmark.errors import MeasurementError
from trainmark.frameworks.adapter import Adapter

LAG_SHARE = 0.1
"""Largest allowed lag (work left when the clock stops), as a fraction of the measured time."""

LAG_SECONDS = 0.02
"""Lags below this can't be distinguished from the noise of a busy machine."""

CHECKED_SINGLY = 3
"""Number of timed intervals that are checked one by one: the compilation and two epochs."""

MAX_LAGGING = 2
"""The run fails when this many of them lag; a single lag may be a hiccup of the machine."""

CHECKED_IN_SUM = 11
"""Number of timed intervals whose lags are summed: the compilation and ten epochs."""

MIN_SUMMED = 4
"""The sum is checked from this many intervals on. It excludes the largest lag, which may be a hiccup."""

SUM_SHARE, SUM_SECONDS = 0.05, 0.06
"""Largest allowed sum of lags, as a fraction of the measured time and in seconds; sums have less noise."""


class ClockCheck:
    """Checks, after each timed interval, whether the device was still working when the clock stopped.

    The weights are read twice. A read waits for all pending work, so if `synchronize` returned too early, the first
    read takes longer than the second. The difference is the lag: the time that the clock missed.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lags: list[tuple[float, float]] = []

    def after(self, seconds: float) -> None:
        """Check a timed interval. To be called when its clock has stopped.

        Raises MeasurementError if MAX_LAGGING of the first CHECKED_SINGLY intervals have a lag above both LAG_SHARE of
        the measured time and LAG_SECONDS, or if the lags of up to CHECKED_IN_SUM intervals, without the largest, sum to
        more than both SUM_SHARE of the measured time and SUM_SECONDS.
        """
        if len(self._lags) == CHECKED_IN_SUM:
            return
        lag_seconds = self._read_seconds() - self._read_seconds()
        self._lags.append((lag_seconds, seconds))
        singly = self._lags[:CHECKED_SINGLY]
        lagging = [(lag, measured) for lag, measured in singly if lag > max(LAG_SHARE * measured, LAG_SECONDS)]
        if len(lagging) == MAX_LAGGING:
            lags = ", ".join(f"{lag:.3f} s after measuring {measured:.3f} s" for lag, measured in lagging)
            raise MeasurementError(
                f"the device was still working when the clock stopped, {MAX_LAGGING} times ({lags}): the adapter's "
                "synchronize must wait for its device; the times of this run would be wrong"
            )
        self._check_sum()

    def _check_sum(self) -> None:
        lags = [lag for lag, _ in self._lags]
        summed_seconds, measured_seconds = sum(lags) - max(lags), sum(seconds for _, seconds in self._lags)
        if len(lags) >= MIN_SUMMED and summed_seconds > max(SUM_SHARE * measured_seconds, SUM_SECONDS):
            raise MeasurementError(
                f"the device was still working when the clock stopped: in {len(lags)} measurements, "
                f"{summed_seconds:.3f} s in total (without the longest) after measuring {measured_seconds:.3f} s; the "
                "adapter's synchronize must wait for its device; the times of this run would be wrong"
            )

    def _read_seconds(self) -> float:
        begin = time.monotonic()
        self._adapter.weights()
        return time.monotonic() - begin
