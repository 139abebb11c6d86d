"""Phase times: they sum to the wall time, and no second is counted twice."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.records.record import PHASES
from trainmark.training import phases as module
from trainmark.training.phases import PhaseTimes, process_start

SCRIPTS = Path(module.__file__).parents[2]


class FakeClock:
    """A monotonic clock that the test moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = FakeClock(100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=fake.monotonic))
    return fake


def phases(**seconds: float) -> dict[str, float]:
    """All phases; those not given have no time."""
    return dict.fromkeys(PHASES, 0.0) | seconds


def test_phases_sum_to_the_wall_time(clock):
    phase_times = PhaseTimes(start=90.0)  # the process began 10 s before
    phase_times.add("start", 10.0)
    for training, evaluation, unnamed in ((3.0, 1.0, 0.5), (2.0, 1.5, 0.25)):
        with phase_times.phase("steady") as timed:
            clock.now += training
        assert timed.seconds == training
        with phase_times.phase("evaluation"):
            clock.now += evaluation
        clock.now += unnamed
    seconds, wall_seconds = phase_times.until_now()
    assert seconds == phases(start=10.0, steady=5.0, evaluation=2.5, other=0.75)
    assert wall_seconds == 18.25 == sum(seconds.values())


def test_the_phases_sum_to_the_wall_time_on_the_real_clock_too_and_none_is_negative():
    phase_times = PhaseTimes(process_start())
    phase_times.add("start", 0.001)
    for _ in range(200):
        for name in ("warm_up", "steady", "evaluation"):
            with phase_times.phase(name):
                pass
    seconds, wall_seconds = phase_times.until_now()
    assert sum(seconds.values()) == pytest.approx(wall_seconds, rel=1e-12)
    assert min(seconds.values()) >= 0


def test_a_phase_that_fails_counts_and_ends(clock):
    phase_times = PhaseTimes(start=100.0)
    with pytest.raises(ValueError, match="x"), phase_times.phase("build"):
        clock.now += 2.0
        raise ValueError("x")
    with phase_times.phase("steady"):
        clock.now += 1.0
    assert phase_times.until_now() == (phases(build=2.0, steady=1.0), 3.0)


# --- a device that computes on its own ----------------------------------------------------------------------------


class Device:
    """A device that works asynchronously; time passes only in `synchronize`."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.left_seconds, self.synchronized = clock, 0.0, 0

    def synchronize(self) -> None:
        self.clock.now += self.left_seconds
        self.left_seconds = 0.0
        self.synchronized += 1


def test_the_device_is_waited_for_before_each_reading_of_the_clock(clock):
    device, phase_times = Device(clock), PhaseTimes(start=100.0)
    device.left_seconds = 5.0  # somebody else's
    with phase_times.phase("steady", device.synchronize) as timed:
        assert device.synchronized == 1
        device.left_seconds = 3.0
    assert (timed.seconds, device.synchronized) == (3.0, 2)
    assert phase_times.until_now() == (phases(steady=3.0, other=5.0), 8.0)


# --- closing ------------------------------------------------------------------------------------------------------


def test_reading_inside_a_phase_counts_it_until_now_and_does_not_end_it(clock):
    phase_times = PhaseTimes(start=100.0)
    with phase_times.phase("steady") as timed:
        clock.now += 2.0
        assert phase_times.until_now() == (phases(steady=2.0), 2.0)
        clock.now += 1.0
    assert timed.seconds == 3.0
    assert phase_times.until_now() == (phases(steady=3.0), 3.0)


# --- resuming after an earlier process ----------------------------------------------------------------------------


def test_resuming_counts_the_earlier_process_and_not_the_restart(clock):
    phase_times = PhaseTimes(start=90.0)
    phase_times.add("start", 2.0)
    with phase_times.phase("import"):
        clock.now += 3.0
    earlier = phases(start=1.0, steady=20.0, other=0.5)
    assert phase_times.resume(earlier) == 13.0  # 10 before the first phase of this process, and 3
    assert phase_times.until_now() == (earlier, 21.5)
    with phase_times.phase("steady"):
        clock.now += 4.0
    clock.now += 0.25
    seconds, wall_seconds = phase_times.until_now()
    assert seconds == phases(start=1.0, steady=24.0, other=0.75)
    assert wall_seconds == 25.75 == sum(seconds.values())


# --- the clock ----------------------------------------------------------------------------------------------------


def test_the_start_of_a_process_is_when_it_was_created():
    """It lies between the times that its parent read before and after creating it; Linux gives it to 10 ms."""
    code = (
        "import json, time; begun = time.monotonic()\n"
        "from trainmark.training.phases import process_start\nprint(json.dumps([begun, process_start()]))"
    )
    before = time.monotonic()
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    begun, start = json.loads(output)
    assert before - 0.02 <= start <= begun
