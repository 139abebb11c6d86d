"""The ledger: phases that add up to the wall time, and never count a second twice."""

from types import SimpleNamespace

import pytest

from trainmark import ledger as module
from trainmark.ledger import Ledger


class FakeClock:
    """A monotonic clock that moves only when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = FakeClock(100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=fake.monotonic))
    return fake


def test_phases_sum_to_the_wall_time(clock):
    ledger = Ledger(start=90.0)  # the process began 10 s before
    ledger.add("start", 10.0)
    for training, evaluation, unnamed in ((3.0, 1.0, 0.5), (2.0, 1.5, 0.25)):
        with ledger.phase("training") as timed:
            clock.now += training
        assert timed.seconds == training
        with ledger.phase("evaluation"):
            clock.now += evaluation
        clock.now += unnamed
    phases, wall_seconds = ledger.close()
    assert phases == {"start": 10.0, "training": 5.0, "evaluation": 2.5, "other": 0.75}
    assert wall_seconds == 18.25 == sum(phases.values())


def test_all_time_is_other_where_nothing_is_named(clock):
    ledger = Ledger(start=100.0)
    clock.now += 4.0
    assert ledger.close() == ({"other": 4.0}, 4.0)


def test_each_phase_has_its_own_clock(clock):
    ledger = Ledger(start=100.0)
    seconds = []
    for step in (1.0, 2.0, 4.0):
        with ledger.phase("training") as timed:
            clock.now += step
        seconds.append(timed.seconds)
    assert seconds == [1.0, 2.0, 4.0]


def test_the_clock_reads_nothing_before_the_phase_ends(clock):
    ledger = Ledger(start=100.0)
    with ledger.phase("training") as timed:
        clock.now += 3.0
        assert timed.seconds == 0.0
    assert timed.seconds == 3.0


@pytest.mark.parametrize("inner", ["evaluation", "training"])
def test_nested_phases_are_refused(clock, inner):
    ledger = Ledger(start=100.0)
    with ledger.phase("training"):
        clock.now += 1.0
        with (
            pytest.raises(RuntimeError, match="began inside") as caught,
            ledger.phase(inner),
        ):
            pytest.fail("the inner phase began")
    assert str(caught.value) == f"phase {inner!r} began inside phase 'training': a second would count twice"
    phases, wall_seconds = ledger.close()
    assert phases == {"training": 1.0, "other": 0.0}
    assert wall_seconds == 1.0


def test_a_phase_that_fails_counts_and_ends(clock):
    ledger = Ledger(start=100.0)
    with pytest.raises(KeyError), ledger.phase("build"):
        clock.now += 2.0
        raise KeyError("x")
    with ledger.phase("training"):
        clock.now += 1.0
    assert ledger.close() == ({"build": 2.0, "training": 1.0, "other": 0.0}, 3.0)


def test_closing_twice_counts_nothing_twice(clock):
    ledger = Ledger(start=100.0)
    with ledger.phase("training"):
        clock.now += 1.0
    assert ledger.close() == ledger.close()
    clock.now += 2.0
    assert ledger.close() == ({"training": 1.0, "other": 2.0}, 3.0)


def test_the_clock_is_monotonic_and_not_the_time_of_day():
    import time

    assert module.time is time
    before = time.monotonic()
    ledger = Ledger(start=before)
    with ledger.phase("training"):
        pass
    phases, wall_seconds = ledger.close()
    assert 0 <= phases["training"] <= wall_seconds <= time.monotonic() - before
