"""Processes train in turn; one that fails or is killed is an error with its reason, and none outlives the other."""

import os
import signal
import time

import pytest

from trainmark.errors import MeasurementError
from trainmark.training.turns import Trainee, in_turn


def sleeper(seconds):
    """A training that takes these seconds per unit, and refuses 0 units."""
    if seconds < 0:
        raise ValueError("negative seconds")

    def train(units):
        if units < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(seconds * units)
        return 1 / units * seconds * units**2

    return train


@pytest.fixture
def trainee():
    """A function that starts a process; all are ended after the test, which may have ended some."""
    started = []

    def start(*arguments):
        started.append(Trainee("the sleeper", sleeper, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()
        assert one._process.exitcode is not None


def test_turns_return_what_the_process_measured(trainee):
    fast, slow = trainee(0.001), trainee(0.002)
    assert in_turn(fast, slow, 3, 2) == ([0.002] * 3, [0.004] * 3)
    fast.close()


@pytest.mark.parametrize(
    ("argument", "units", "says"),
    [
        (-1, 1, "the sleeper: ValueError: negative seconds"),
        (1, 0, "the sleeper: ZeroDivisionError: "),
        (1, -1, "the sleeper: its process ended with the exit status -9"),
    ],
    ids=["it can't be created", "it fails", "it is killed"],
)
def test_a_failure_is_told_with_its_reason(trainee, argument, units, says):
    with pytest.raises(MeasurementError) as raised:
        trainee(argument).take_turn(units)
    assert str(raised.value).startswith(says)
