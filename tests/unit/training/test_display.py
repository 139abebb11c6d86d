"""What a person sees of a run: a line at the start and at the end, a bar on a terminal only, the rest in the log."""

import io
import os
from functools import partialmethod

import pytest

from trainmark import console
from trainmark.errors import WORKFLOW_VARIABLE
from trainmark.plan.run import Run
from trainmark.trainer import Trainer
from trainmark.training import display as module
from trainmark.training.display import RunDisplay

RUN = Run("e", "mnist-mlp-keras", "digits", Trainer("chainer", "cpu"), 2, 3)
ORDER = {"position": 7, "of": 18}
TITLE = "run 7 of 18: mnist-mlp-keras on digits, chainer on cpu, repeat 3"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


RESULT = {"test_loss": 0.123456, "test_accuracy": 0.98765, "training_seconds": 12.3456}
RECORD = {
    "result": RESULT,
    "diverged": None,
    "out_of_memory": None,
    "disturbed": None,
    "other_attempts": [],
    "curves": [],
    "resumes": 0,
}


def entry(epoch: int) -> dict:
    evaluations = {"test": {"loss": 0.25, "accuracy": 0.9375}}
    return {"epoch": epoch, "seconds": 1.23456, "batch_loss": 0.5, "evaluations": evaluations}


def show(terminal: io.StringIO) -> str:
    display = RunDisplay(RUN, ORDER, terminal)
    display.start()
    display.epoch_done(entry(1))
    display.epoch_done(entry(2))
    display.finish(RECORD)
    return terminal.getvalue()


def test_off_a_terminal_exactly_two_lines(capsys):
    assert show(io.StringIO()) == (
        f"{TITLE}: training 2 epochs\nrun 7 of 18: test accuracy 0.9877, test loss 0.1235, 12.35 s of training\n"
    )
    out, err = capsys.readouterr()
    assert err == "", "the bar is silent"
    assert out == (
        "training\n"
        "epoch 1: loss 0.5, test {'loss': 0.25, 'accuracy': 0.9375}, 1.235 s\n"
        "epoch 2: loss 0.5, test {'loss': 0.25, 'accuracy': 0.9375}, 1.235 s\n"
    )


DRAWN_EACH_TIME = type("Bar", (module.tqdm,), {"__init__": partialmethod(module.tqdm.__init__, mininterval=0)})
"""A bar that is not drawn ten times a second at most."""


@pytest.mark.parametrize(("step", "line"), [(0, "going on after epoch 1"), (3, "going on after step 3 of epoch 2")])
def test_a_run_that_goes_on_says_where(monkeypatch, capsys, step, line):
    monkeypatch.setattr(module, "tqdm", DRAWN_EACH_TIME)
    display = RunDisplay(RUN, ORDER, terminal := Terminal())
    display.start()
    display.went_on(1, step)
    assert f"run 7 of 18: {line} of 2\n" in terminal.getvalue()
    assert capsys.readouterr().out.splitlines()[1] == line
    display.epoch_done(entry(2))
    assert "| 1/2 [" in terminal.getvalue() and "| 2/2 [" in terminal.getvalue()


def test_a_terminal_that_went_away_ends_no_run():
    """A closed window, or a session that was logged out: the run goes on, and its record is written."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as gone:
        terminal = console.Terminal(gone)
        with pytest.raises(BrokenPipeError):
            print("a line", file=gone)
        display = RunDisplay(RUN, ORDER, terminal)
        display.start()
        display.epoch_done(entry(1))
        display.finish(RECORD)
        display.stopped("SIGHUP")
        os.dup2(os.open(os.devnull, os.O_WRONLY), gone.fileno())  # what is left in its buffer goes somewhere


def test_a_run_of_a_workflow_leaves_its_lines_to_the_workflow(monkeypatch, capsys):
    monkeypatch.setenv(WORKFLOW_VARIABLE, "1")
    display = RunDisplay(RUN, ORDER, terminal := Terminal())
    display.wait()
    display.start()
    display.went_on(1)
    display.epoch_done(entry(2))
    display.finish(RECORD)
    display.done_elsewhere()
    display.fail("no memory", None)
    assert terminal.getvalue() == ""
    assert capsys.readouterr().out.splitlines()[:3] == ["waiting for its device", "training", "going on after epoch 1"]


def test_on_a_terminal_a_bar_between_the_two_lines(monkeypatch):
    monkeypatch.setattr(module, "tqdm", DRAWN_EACH_TIME)
    shown = show(Terminal())
    assert shown.startswith(f"{console.CLEAR_LINE}{TITLE}: training 2 epochs\n\rrun 7 of 18:   0%|")
    assert "| 2/2 [" in shown
    assert "accuracy=0.9375, loss=0.5000" in shown
    assert f"{console.CLEAR_LINE}run 7 of 18: test accuracy 0.9877" in shown, "the bar is gone"
