"""A run's own proof that its clock was read after the device was done."""

import time

from trainmark.errors import MeasurementError
from trainmark.frameworks.base import Adapter

LAG_SHARE = 0.1
"""What may be left to do when the clock stops, as a share of the epoch's time."""

LAG_SECONDS = 0.02
"""Less than this is not told from a busy machine's noise."""

EPOCHS = 2
"""How many epochs are looked at; all of them must lag, so that one hiccup of the machine fails no run."""


class ClockCheck:
    """Looks, after the clock of an epoch stopped, whether the device was still at work.

    The weights are read twice. Reading waits for whatever still has to be computed: where `synchronize` returned too
    early, the first reading takes longer than the second, by the time that the clock missed.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lags: list[tuple[float, float]] = []

    def after_epoch(self, epoch_seconds: float) -> None:
        """Call it when an epoch's clock has stopped; `epoch_seconds` is what it measured.

        Raises MeasurementError after EPOCHS epochs that each had more to do than LAG_SHARE of what was measured.
        """
        if len(self._lags) == EPOCHS:
            return
        lag_seconds = self._reading_seconds() - self._reading_seconds()
        self._lags.append((lag_seconds, epoch_seconds))
        if len(self._lags) == EPOCHS and all(map(_too_early, self._lags)):
            missed = ", ".join(f"{lag:.3f} s beside {seconds:.3f} s" for lag, seconds in self._lags)
            raise MeasurementError(
                f"the clock of the first {EPOCHS} epochs stopped before the device did ({missed}): the adapter's "
                "synchronize does not wait for its device, and no time of this run would be true"
            )

    def _reading_seconds(self) -> float:
        begin = time.monotonic()
        self._adapter.weights()
        return time.monotonic() - begin


def _too_early(lag_and_epoch: tuple[float, float]) -> bool:
    """Whether a clock stopped before the device did: (lag, epoch) in seconds."""
    lag_seconds, epoch_seconds = lag_and_epoch
    return lag_seconds > max(LAG_SHARE * epoch_seconds, LAG_SECONDS)
