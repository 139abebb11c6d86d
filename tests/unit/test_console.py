"""What a person sees of a run: a line at the start and at the end, a bar on a terminal only, the rest in the log."""

import io
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from trainmark import console
from trainmark.console import RunDisplay, keep_log, place_in_order, print_line, said_when_long
from trainmark.errors import DataError
from trainmark.run import Run

RUN = Run("e", "mnist-mlp-keras", "digits", "chainer", "cpu", 2, 3)
ORDER = {"place": 7, "of": 18}
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
    return {"result": result, "diverged": diverged, "out_of_memory": out_of_memory}


def show(terminal: io.StringIO, ended: dict) -> str:
    display = RunDisplay(RUN, ORDER, terminal)
    display.start()
    display.epoch_done(entry(1))
    display.epoch_done(entry(2))
    display.finish(ended)
    return terminal.getvalue()


# --- place in the plan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        ([RUN.id], {"place": 1, "of": 1}),
        (["x", "y", RUN.id, "z"], {"place": 3, "of": 4}),
        (["x", "y"], None),
        ([], None),
    ],
)
def test_place_in_order(tmp_path, ids, place):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"config": {}, "runs": sorted(ids), "order": ids}))
    assert place_in_order(RUN, plan) == place


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "not json", "[]", "null", "3", '"order"', "{}",
        '{"order": null}', '{"order": 3}', '{"order": {"a": 1}}', json.dumps({"order": RUN.id}),
    ],
)  # fmt: skip
def test_a_plan_that_can_not_be_read_is_no_reason_to_fail(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert place_in_order(RUN, plan) is None


def test_no_plan(tmp_path):
    assert place_in_order(RUN, None) is None
    assert place_in_order(RUN, tmp_path / "plan.json") is None


# --- the display --------------------------------------------------------------------------------------------------


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


class Descriptor(io.RawIOBase):
    """What a stream without buffer writes to, as standard error under PYTHONUNBUFFERED: it keeps each write apart."""

    def __init__(self):
        self.writes = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.writes.append(bytes(data).decode())
        return len(data)


def test_a_line_and_its_end_are_one_write():
    """Else a line of another job comes between them: jobs share the terminal."""
    descriptor = Descriptor()
    unbuffered = io.TextIOWrapper(descriptor, encoding="utf-8", write_through=True)
    print_line("certify", unbuffered)
    display = RunDisplay(RUN, ORDER, console.Terminal(unbuffered))
    display.start()
    display.went_on(1)
    display.finish(record())
    display.fail("why", None)
    assert len(descriptor.writes) == 5
    assert all(line.endswith("\n") for line in descriptor.writes)


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
    monkeypatch.setattr(console, "tqdm", partial(console.tqdm, mininterval=0))
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
    monkeypatch.setattr(console, "WAITING_SECONDS", 0.01)
    display = RunDisplay(RUN, ORDER, terminal := io.StringIO())
    with display.waiting():
        time.sleep(0.2)
    assert terminal.getvalue() == f"{TITLE}: waiting for its CPUs or its GPU, which other runs hold\n"
    monkeypatch.setattr(console, "WAITING_SECONDS", 0.2)
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
    monkeypatch.setattr(console, "tqdm", partial(console.tqdm, mininterval=0))  # else it is drawn ten times a second
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


# --- the log ------------------------------------------------------------------------------------------------------

REDIRECT = """
import os, pathlib, sys
from trainmark.console import redirect_output
terminal = redirect_output(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None)
print("by print", flush=True)
os.write(1, b"by descriptor 1\\n")
os.write(2, b"by descriptor 2\\n")
print("for the person", file=terminal)
"""


def redirected(*arguments: str) -> subprocess.CompletedProcess:
    folder = str(Path(console.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", REDIRECT, *arguments],
        env={"PYTHONPATH": folder}, check=True, capture_output=True, text=True,
    )  # fmt: skip


def test_what_frameworks_print_goes_to_the_log(tmp_path):
    log = tmp_path / "deep" / "x.log"
    done = redirected(str(log))
    assert (done.stdout, done.stderr) == ("", "for the person\n")
    assert log.read_text() == "by print\nby descriptor 1\nby descriptor 2\n"


def test_a_log_begins_anew(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("an older and much longer log\n" * 50)
    redirected(str(log))
    assert log.read_text() == "by print\nby descriptor 1\nby descriptor 2\n"


def test_without_a_log_nothing_moves():
    done = redirected()
    assert done.stdout == "by print\nby descriptor 1\n"
    assert done.stderr == "by descriptor 2\nfor the person\n"


def test_keep_log_copies_errors_and_adds_the_traceback(tmp_path, capsys):
    log = tmp_path / "folder" / "log"
    with pytest.raises(DataError), keep_log(log):
        print("half way", file=sys.stderr)
        raise DataError("no such file")
    assert capsys.readouterr().err == "half way\n"
    assert log.read_text().startswith("half way\nTraceback")
    assert log.read_text().endswith("DataError: no such file\n")


def test_keep_log_writes_names_that_are_no_utf_8(tmp_path):
    with pytest.raises(DataError), keep_log(tmp_path / "log"):
        raise DataError("caf\udce9 holds no image")
    assert (tmp_path / "log").read_text(encoding="utf-8").endswith("DataError: caf\\udce9 holds no image\n")


@pytest.mark.parametrize("watched", [True, False])
def test_keep_log_leaves_it_to_the_stream_whether_somebody_watches(tmp_path, monkeypatch, watched):
    monkeypatch.setattr(sys, "stderr", Terminal() if watched else io.StringIO())
    with keep_log(tmp_path / "log"):
        assert sys.stderr.isatty() is watched


# --- a command that answers ---------------------------------------------------------------------------------------


def test_only_a_commands_own_output_is_seen():
    """What libraries print meanwhile, from C++ too, goes nowhere; errors after it are seen again."""
    code = (
        "import os, sys\n"
        "from trainmark.console import only_own_output\n"
        "print('before')\n"
        "with only_own_output() as out:\n"
        "    print('by print'); os.write(1, b'by descriptor 1'); os.write(2, b'by descriptor 2')\n"
        "    out.write('d\u00e9j\u00e0 vu\\n')\n"
        "    sys.stderr.write('by a library')\n"
        "print('after'); sys.exit('an error')\n"
    )
    folder = str(Path(console.__file__).parents[1])
    here = {"PYTHONPATH": folder, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], env=here, capture_output=True, encoding="utf-8", check=False)
    assert (done.stdout, done.stderr) == ("before\ndéjà vu\nafter\n", "an error\n")


@pytest.mark.parametrize(("seconds", "said"), [(0.01, "waiting\n"), (60, "")])
def test_what_takes_long_is_said(seconds, said):
    stream = io.StringIO()
    with said_when_long("waiting", stream, seconds):
        time.sleep(0.2)
    assert stream.getvalue() == said
