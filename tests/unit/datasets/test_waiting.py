"""What takes long says what it is and for how long; what is quick says nothing."""

import sys
import time
from contextlib import contextmanager

import pytest

from trainmark.datasets import waiting
from trainmark.datasets.waiting import hold_cpus, say_while


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "SAY_AFTER_SECONDS", (0.02, 0.1, 60))


def test_what_takes_long_is_said_while_it_lasts_and_at_its_end(soon, capsys):
    with say_while("reading"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "reading: 0.02 s so far\nreading: 0.1 s so far\nreading: took 0 s\n"


def test_what_is_quick_says_nothing(capsys):
    with say_while("reading"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("is_terminal", "says"), [(True, False), (False, True)])
def test_a_bar_on_a_terminal_is_enough(soon, capsys, monkeypatch, is_terminal, says):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with say_while("packing", shows_bar=True):
        time.sleep(0.3)
    assert bool(capsys.readouterr().err) is says


def test_waiting_for_cpus_is_said_and_the_work_behind_it_is_not(soon, capsys, monkeypatch):
    held = []

    @contextmanager
    def busy(threads):
        time.sleep(0.3)
        held.append(threads)
        yield
        held.clear()

    monkeypatch.setattr(waiting, "cpus_beside_runs", busy)
    with hold_cpus("preparing mnist", 3):
        printed = capsys.readouterr().err
        assert printed.startswith("preparing mnist: waiting for CPUs that runs hold: 0.02 s so far\n")
        assert printed.endswith("preparing mnist: waiting for CPUs that runs hold: took 0 s\n")
        assert held == [3]
        time.sleep(0.3)
    assert capsys.readouterr().err == "" and held == []
