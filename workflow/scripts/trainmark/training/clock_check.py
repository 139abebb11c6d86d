"""A run's own proof that its clock was read after the device was done."""

import time

from trainmark.errors import MeasurementError
from trainmark.frameworks.adapter import Adapter

LAG_SHARE = 0.1
"""What may be left to do when the clock stops, as a share of what it measured."""

LAG_SECONDS = 0.02
"""Less than this is not told from a busy machine's noise."""

STRETCHES = 3
"""How many timed stretches are looked at one by one: compilation and two epochs."""

ADDED = 11
"""How many are added up: compilation and ten epochs."""

LEAST_ADDED = 4
"""Fewer say nothing together: the largest lag may be a hiccup of the machine, and is left out."""

ADDED_SHARE, ADDED_SECONDS = 0.05, 0.06
"""What may be left to do over these, as a share of what was measured and at the least: sums have less noise."""

TOO_MANY = 2
"""So many of them that lag fail the run: one may be a hiccup of the machine."""


class ClockCheck:
    """Looks, after the clock of a timed stretch stopped, whether the device was still at work.

    The weights are read twice. Reading waits for whatever still has to be computed: where `synchronize` returned too
    early, the first reading takes longer than the second, by the time that the clock missed.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lags: list[tuple[float, float]] = []

    def after(self, seconds: float) -> None:
        """Call it when a clock has stopped; `seconds` is what it measured.

        Raises MeasurementError when TOO_MANY of the first STRETCHES calls found more to do than LAG_SHARE of what was
        measured, and than LAG_SECONDS; and when up to ADDED calls together did, by ADDED_SHARE and ADDED_SECONDS.
        """
        if len(self._lags) == ADDED:
            return
        lag_seconds = self._reading_seconds() - self._reading_seconds()
        self._lags.append((lag_seconds, seconds))
        too_early = list(filter(_too_early, self._lags[:STRETCHES]))
        if len(too_early) == TOO_MANY:
            missed = ", ".join(f"{lag:.3f} s beside {seconds:.3f} s" for lag, seconds in too_early)
            raise MeasurementError(
                f"the clock stopped before the device did, {TOO_MANY} times ({missed}): the adapter's synchronize does "
                "not wait for its device, and no time of this run would be true"
            )

        self._check_sum()

    def _check_sum(self) -> None:
        """MeasurementError where small lags add up."""
        lags = [lag for lag, _ in self._lags]
        added_seconds, measured_seconds = sum(lags) - max(lags), sum(seconds for _, seconds in self._lags)
        if len(lags) >= LEAST_ADDED and added_seconds > max(ADDED_SHARE * measured_seconds, ADDED_SECONDS):
            raise MeasurementError(
                f"the clock stopped before the device did: over {len(lags)} times, {added_seconds:.3f} s beside "
                f"{measured_seconds:.3f} s were left to do, the longest apart; the adapter's synchronize does not wait "
                "for its device, and no time of this run would be true"
            )

    def _reading_seconds(self) -> float:
        begin = time.monotonic()
        self._adapter.weights()
        return time.monotonic() - begin


def _too_early(lag_and_measured: tuple[float, float]) -> bool:
    """Whether a clock stopped before the device did: (lag, what it measured) in seconds."""
    lag_seconds, measured_seconds = lag_and_measured
    return lag_seconds > max(LAG_SHARE * measured_seconds, LAG_SECONDS)
