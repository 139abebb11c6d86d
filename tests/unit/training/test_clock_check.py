"""A run checks that its clock is read after the device has finished its work."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from trainmark.errors import MeasurementError
from trainmark.training import clock_check
from trainmark.training.clock_check import ClockCheck


class FakeAdapter:
    """Reading its weights takes `left_seconds` (pending work) and `reading_seconds`. It moves the clock itself."""

    def __init__(self, reading_seconds: float = 0.001) -> None:
        self.now, self.left_seconds, self.reading_seconds, self.readings = 0.0, 0.0, reading_seconds, 0

    def weights(self) -> dict:
        self.now += self.left_seconds + self.reading_seconds
        self.left_seconds = 0.0
        self.readings += 1
        return {}


@pytest.fixture
def adapter(monkeypatch):
    fake = FakeAdapter()
    monkeypatch.setattr(clock_check, "time", SimpleNamespace(monotonic=lambda: fake.now))
    return fake


def train(adapter: FakeAdapter, intervals: list[tuple[float, float]]) -> None:
    """intervals: (seconds measured by the clock, seconds for which the device still works after it stopped)."""
    check = ClockCheck(adapter)
    for measured, left in intervals:
        adapter.left_seconds = left
        check.after(measured)
        adapter.left_seconds = 0.0


@pytest.mark.parametrize("reading_seconds", [0.0, 5.0])
def test_a_synchronized_device_passes_however_long_reading_takes(adapter, reading_seconds):
    adapter.reading_seconds = reading_seconds
    train(adapter, [(1.0, 0.0), (1.0, 0.0)])
    assert adapter.readings == 4


@pytest.mark.parametrize("fine", [[], [(5.0, 0.0)]], ids=["compilation and an epoch", "two epochs"])
def test_a_device_that_is_busy_after_two_of_the_first_intervals_fails_the_run(adapter, fine):
    """A run of one epoch is caught by its compilation; one whose compilation takes long, by its first two epochs."""
    with pytest.raises(MeasurementError) as caught:
        train(adapter, [*fine, (0.01, 1.0), (0.012, 0.9)])
    assert str(caught.value) == (
        "the device was still working when the clock stopped, 2 times (1.000 s after measuring 0.010 s, 0.900 s after "
        "measuring 0.012 s): the adapter's synchronize must wait for its device; the times of this run would be wrong"
    )


@pytest.mark.parametrize(
    ("intervals", "fails"),
    [
        ([(10.0, 0.9)] * 2, False),  # less than a tenth of the epoch
        ([(10.0, 1.1)] * 2, True),
        ([(0.01, 0.019)] * 2, False),  # more than a tenth, and no more than noise
        ([(0.01, 0.021)] * 2, True),
        ([(0.045, 0.002)] * 11, False),  # what Keras's second reading saves
        ([(2.0, 0.08)] * 11, False),  # less than a twentieth
        ([(0.045, 0.0)] * 6 + [(0.045, 3.0)] + [(0.045, 0.0)] * 4, False),  # a hiccup
    ],
)
def test_a_lag_must_exceed_a_share_of_the_epochs_and_the_noise(adapter, intervals, fails):
    with pytest.raises(MeasurementError) if fails else nullcontext():
        train(adapter, intervals)


def test_small_lags_add_up(adapter):
    """A lag of 15 ms is below the noise limit of one epoch, but a third of every epoch of 45 ms."""
    told = r"in 6 measurements, 0\.075 s in total \(without the longest\) after measuring 0\.270 s; the adapter's"
    with pytest.raises(MeasurementError, match=told):
        train(adapter, [(0.045, 0.015)] * 11)
