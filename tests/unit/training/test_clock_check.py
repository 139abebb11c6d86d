"""A run's proof that its clock was read after the device was done."""

from types import SimpleNamespace

import pytest

from trainmark.errors import MeasurementError
from trainmark.training import clock_check
from trainmark.training.clock_check import ClockCheck


class FakeAdapter:
    """Its weights are read in `reading_seconds`, after what its device has still to do; it moves the clock itself."""

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


def train(adapter: FakeAdapter, stretches: list[tuple[float, float]]) -> None:
    """stretches: (seconds that the clock measured, seconds that the device still works when it has stopped)."""
    check = ClockCheck(adapter)
    for measured, left in stretches:
        adapter.left_seconds = left
        check.after(measured)
        adapter.left_seconds = 0.0


@pytest.mark.parametrize("reading_seconds", [0.0, 0.001, 5.0])
def test_an_adapter_whose_device_is_done_passes_however_long_reading_takes(adapter, reading_seconds):
    adapter.reading_seconds = reading_seconds
    train(adapter, [(1.0, 0.0), (1.0, 0.0)])
    assert adapter.readings == 4


@pytest.mark.parametrize("fine", [[], [(5.0, 0.0)]], ids=["compilation and an epoch", "two epochs"])
def test_a_device_that_is_busy_after_two_of_the_first_stretches_fails_the_run(adapter, fine):
    """A run of one epoch is caught by its compilation; one whose compilation takes long, by its first two epochs."""
    with pytest.raises(MeasurementError) as caught:
        train(adapter, [*fine, (0.01, 1.0), (0.012, 0.9)])
    assert str(caught.value) == (
        "the clock stopped before the device did, 2 times (1.000 s beside 0.010 s, 0.900 s beside 0.012 s): the "
        "adapter's synchronize does not wait for its device, and no time of this run would be true"
    )


@pytest.mark.parametrize("hiccup", [0, 1, 2])
def test_one_hiccup_of_the_machine_fails_no_run(adapter, hiccup):
    train(adapter, [(1.0, 3.0 if place == hiccup else 0.0) for place in range(3)])
    assert adapter.readings == 6


@pytest.mark.parametrize(
    ("epoch_seconds", "lag_seconds", "fails"),
    [
        (10.0, 0.9, False),  # less than a tenth of the epoch
        (10.0, 1.1, True),
        (0.01, 0.019, False),  # more than a tenth, and no more than noise
        (0.01, 0.021, True),
    ],
)
def test_what_may_be_left_is_a_tenth_of_the_epoch_and_at_least_the_noise(adapter, epoch_seconds, lag_seconds, fails):
    epochs = [(epoch_seconds, lag_seconds)] * 2
    if not fails:
        return train(adapter, epochs)
    with pytest.raises(MeasurementError):
        train(adapter, epochs)


def test_small_lags_add_up(adapter):
    """15 ms an epoch are less than a machine's noise in one epoch, and a third of epochs of 45 ms."""
    with pytest.raises(MeasurementError) as caught:
        train(adapter, [(0.045, 0.015)] * 11)
    assert str(caught.value) == (
        "the clock stopped before the device did: over 6 times, 0.075 s beside 0.270 s were left to do, the longest "
        "apart; the adapter's synchronize does not wait for its device, and no time of this run would be true"
    )


@pytest.mark.parametrize(
    "stretches",
    [
        [(0.045, 0.002)] * 11,  # what Keras's second reading saves
        [(2.0, 0.08)] * 11,  # less than a twentieth
        [(0.045, 0.0)] * 6 + [(0.045, 3.0)] + [(0.045, 0.0)] * 4,  # a hiccup
    ],
)
def test_what_an_honest_run_may_have_left_passes(adapter, stretches):
    train(adapter, stretches)


def test_later_epochs_are_not_looked_at(adapter):
    train(adapter, [(1.0, 0.0)] * 11 + [(1.0, 9.0), (1.0, 9.0)])
    assert adapter.readings == 22, "reading the weights takes time"
