"""What a person sees of a run: a line at the start and at the end, a bar on a terminal only, the rest in the log."""

import io
import os
import time
from functools import partial
from pathlib import Path

import pytest

from trainmark import console
from trainmark.plan.run import Run
from trainmark.training import display as module
from trainmark.training.display import RunDisplay

RUN = Run("e", "mnist-mlp-keras", "digits", "chainer", "cpu", 2, 3)
ORDER = {"position": 7, "of": 18}
TITLE = "run 7 of 18: mnist-mlp-keras on digits, chainer, cpu, repeat 3"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def entry(epoch: int, loss: float | str = 0.5, test_loss: float | str = 0.25) -> dict:
    evaluations = {"test": {"loss": test_loss, "accuracy": 0.9375}}
    return {"epoch": epoch, "seconds": 1.23456, "batch_loss": loss, "evaluations": evaluations}


def record(diverged: dict | None = None, test_loss: float | str = 0.123456, out_of_memory: dict | None = None) -> dict:
    result = {"test_loss": test_loss, "test_accuracy": 0.98765, "training_seconds": 12.3456}
    if out_of_memory and out_of_memory["epoch"] is None:
        result = dict.fromkeys(result)
    return {"result": result, "diverged": diverged, "out_of_memory": out_of_memory, "disturbed": None}


def show(terminal: io.StringIO, ended: dict) -> str:
    display = RunDisplay(RUN, ORDER, terminal)
    display.start()
    display.epoch_done(entry(1))
    display.epoch_done(entry(2))
    display.finish(ended)
    return terminal.getvalue()


# --- the display --------------------------------------------------------------------------------------------------


def test_a_disturbed_run_says_by_what():
    causes = [
        {"cause": "foreign load", "epochs": [[1, 2]], "value": 0.4701, "limit": 0.0412},
        {"cause": "stopped", "epochs": [[2, 2]], "value": 0.123, "limit": 0.01},
    ]
    shown = show(io.StringIO(), record() | {"disturbed": {"causes": causes}})
    assert shown.endswith(
        "12.35 s of training; disturbed: other work took 47.0 % of its CPUs, the limit is 4.1 % and it was stopped for "
        "12.3 % of the time, the limit is 1.0 %\n"
    )


def test_off_a_terminal_exactly_two_lines(capsys):
    assert show(io.StringIO(), record()) == (
        f"{TITLE}: training 2 epochs\nrun 7 of 18: done, test loss 0.1235, test accuracy 0.9877, 12.35 s of training\n"
    )
    out, err = capsys.readouterr()
    assert err == "", "the bar is silent"
    assert out == (
        "epoch 1: loss 0.5, test {'loss': 0.25, 'accuracy': 0.9375}, 1.235 s\n"
        "epoch 2: loss 0.5, test {'loss': 0.25, 'accuracy': 0.9375}, 1.235 s\n"
    )


def test_a_diverged_run_says_so(capsys):
    diverged = {"kind": "nan", "epoch": 2, "step": 17, "last_finite_loss": 3.5}
    assert show(io.StringIO(), record(diverged, test_loss="NaN")).splitlines()[1:] == [
        "run 7 of 18: diverged: loss is nan at step 17, epoch 2, 12.35 s of training"
    ]


@pytest.mark.parametrize(
    ("phase", "epoch", "line"),
    [
        ("steady", 3, "run 7 of 18: out of memory in epoch 3: the limit, 12.35 s of training"),
        ("data_load", None, "run 7 of 18: out of memory in data load: the limit"),
    ],
)
def test_a_run_out_of_memory_says_where(capsys, phase, epoch, line):
    where = {"phase": phase, "epoch": epoch, "resident_mib": 99.5, "message": "the limit"}
    assert show(io.StringIO(), record(out_of_memory=where)).splitlines()[1:] == [line]


def test_a_run_that_goes_on_says_after_which_epoch(capsys):
    terminal = io.StringIO()
    display = RunDisplay(RUN, ORDER, terminal)
    display.start()
    display.went_on(1)
    display.epoch_done(entry(2))
    display.finish(record())
    assert terminal.getvalue().splitlines()[1] == "run 7 of 18: going on after epoch 1 of 2"
    assert capsys.readouterr().out.splitlines()[0] == "going on after epoch 1"


def test_on_a_terminal_the_bar_goes_on_too(monkeypatch):
    monkeypatch.setattr(module, "tqdm", partial(module.tqdm, mininterval=0))
    display = RunDisplay(RUN, ORDER, terminal := Terminal())
    display.start()
    display.went_on(1)
    display.epoch_done(entry(2))
    assert "| 1/2 [" in terminal.getvalue()
    assert "| 2/2 [" in terminal.getvalue()


def test_a_run_that_somebody_else_did_says_so():
    display = RunDisplay(RUN, ORDER, terminal := io.StringIO())
    display.start()
    display.done_elsewhere()
    assert terminal.getvalue().splitlines()[1] == "run 7 of 18: done by an earlier process that was still at work"


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
        display.finish(record())
        display.stopped("SIGHUP")
        os.dup2(os.open(os.devnull, os.O_WRONLY), gone.fileno())  # what is left in its buffer goes somewhere


def test_a_long_wait_is_told(monkeypatch):
    monkeypatch.setattr(module, "WAITING_SECONDS", 0.01)
    display = RunDisplay(RUN, ORDER, terminal := io.StringIO())
    with display.waiting():
        time.sleep(0.2)
    assert terminal.getvalue() == f"{TITLE}: waiting for its CPUs or its GPU, which other runs hold\n"
    monkeypatch.setattr(module, "WAITING_SECONDS", 0.2)
    with display.waiting():
        pass
    time.sleep(0.4)
    assert terminal.getvalue().count("waiting") == 1


def test_a_stopped_run_says_so_past_any_line_under_way(tmp_path):
    with open(tmp_path / "terminal", "w") as terminal:
        RunDisplay(RUN, ORDER, console.Terminal(terminal)).stopped("SIGTERM")
    assert (tmp_path / "terminal").read_text() == (
        f"\n{TITLE}: stopped by SIGTERM; the next snakemake goes on after the last checkpoint\n"
    )


def test_a_loss_that_is_no_number_is_shown_as_it_is(capsys):
    display = RunDisplay(RUN, ORDER, io.StringIO())
    display.start()
    display.epoch_done(entry(1, loss="Infinity", test_loss="NaN"))
    assert capsys.readouterr().out == "epoch 1: loss Infinity, test {'loss': 'NaN', 'accuracy': 0.9375}, 1.235 s\n"
    terminal = io.StringIO()
    display = RunDisplay(RUN, None, terminal)
    display.start()
    display.finish(record(test_loss="NaN"))
    assert "test loss NaN, test accuracy 0.9877" in terminal.getvalue()
    display.finish(record(test_loss=2.6322135427396224e37))
    assert "test loss 2.632e+37, test" in terminal.getvalue()


def test_on_a_terminal_a_bar_between_the_two_lines(monkeypatch):
    monkeypatch.setattr(module, "tqdm", partial(module.tqdm, mininterval=0))  # else it is drawn ten times a second
    shown = show(Terminal(), record())
    assert shown.startswith(f"{TITLE}: training 2 epochs\n\rrun 7 of 18:   0%|")
    assert "| 2/2 [" in shown
    assert "accuracy=0.9375, loss=0.5000" in shown
    assert shown.endswith("\rrun 7 of 18: done, test loss 0.1235, test accuracy 0.9877, 12.35 s of training\n"), (
        "the bar is gone"
    )


def test_on_a_terminal_a_diverged_run_says_so_below_the_bar(capsys):
    diverged = {"kind": "inf", "epoch": 1, "step": 1, "last_finite_loss": None}
    shown = show(Terminal(), record(diverged, test_loss="Infinity"))
    assert shown.endswith("run 7 of 18: diverged: loss is inf at step 1, epoch 1, 12.35 s of training\n")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (Path("logs/x.log"), f"{TITLE}: failed: no memory; log: logs/x.log\n"),
        (None, f"{TITLE}: failed: no memory\n"),
    ],
)
def test_a_failed_run_says_why_and_where_to_read_on(log, line):
    terminal = io.StringIO()
    RunDisplay(RUN, ORDER, terminal).fail("no memory", log)
    assert terminal.getvalue() == line
