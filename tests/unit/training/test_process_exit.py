"""How the process of a run ends: its exit status, the files it leaves, and which of them the next process uses."""

import json
import os
import signal
import subprocess
import sys

import pytest
from harness import importing
from records_for_tests import record

from trainmark.errors import WORKFLOW_VARIABLE
from trainmark.records.record import read_record, write_record
from trainmark.training.process_exit import STOPPING, ProcessExit


class Display:
    """Records what it should show."""

    def __init__(self):
        self.shown = []

    def __getattr__(self, name):
        return lambda *arguments: self.shown.append((name, *arguments))


@pytest.fixture
def process_exit(tmp_path):
    return ProcessExit(tmp_path / "record.json", None, Display())


def test_a_copy_of_this_runs_record_is_used_and_every_copy_is_deleted(process_exit, tmp_path, capsys):
    kept = tmp_path / "record.kept.json"
    assert not process_exit.take_kept_record(lambda record: pytest.fail("there is no record to check"))
    write_record(record("a"), kept)
    assert not process_exit.take_kept_record(lambda found: False), "it is of another run"
    assert list(tmp_path.iterdir()) == []
    kept.write_text('{"schema_version": 1}')
    assert not process_exit.take_kept_record(lambda found: True)
    assert list(tmp_path.iterdir()) == [] and "it is not used" in capsys.readouterr().out
    write_record(record("a"), kept)
    assert process_exit.take_kept_record(lambda found: found == record("a"))
    assert read_record(tmp_path / "record.json") == record("a") and not kept.exists()


PROCESS = """
import json, os, signal, sys
from pathlib import Path
from trainmark.console import Terminal
from trainmark.training.display import RunDisplay
from trainmark.training.process_exit import ProcessExit
from trainmark.plan.run import Run
from trainmark.trainer import Trainer

run = Run("e", "r", "d", Trainer("a", "cpu"), 2, 1)
record = json.loads(Path("given.json").read_text())
display = RunDisplay(run, None, Terminal(sys.stderr))
process_exit = ProcessExit(Path("record.json"), None, display)
process_exit.checkpoint_folder.mkdir()
process_exit.stop_on_signals()
display.start()
{rest}
"""


def ended(tmp_path, rest, **extra):
    """Run a process that ends with the code `rest`, which may use `record`. Returns (exit status, output)."""
    (tmp_path / "given.json").write_text(json.dumps(record("a")))
    command = [sys.executable, "-c", PROCESS.format(rest=rest)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=importing(**extra))
    return done.returncode, done.stderr


def test_a_run_that_finishes_leaves_its_record_alone(tmp_path):
    status, printed = ended(tmp_path, "process_exit.finish(record)")
    assert status == 0
    assert "run: test accuracy" in printed
    assert read_record(tmp_path / "record.json") == record("a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.json", "record.json"]


def test_a_record_that_does_not_fit_fails_and_keeps_the_checkpoints(tmp_path):
    finish = "process_exit.finish(record | {'status': 'fine'})"
    status, printed = ended(tmp_path, f"try:\n    {finish}\nexcept Exception as error:\n    process_exit.fail(error)")
    assert status == 1
    assert "failed: record.json is not a record of this version of trainmark: status" in printed
    assert (tmp_path / "record.checkpoint").is_dir()
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize("name", STOPPING)
def test_a_signal_ends_it_with_its_status_and_keeps_the_checkpoints(tmp_path, name):
    status, printed = ended(tmp_path, f"os.kill(os.getpid(), signal.{name}); signal.pause()")
    assert status == 128 + getattr(signal, name)
    assert f"stopped by {name}; the next snakemake goes on after the last checkpoint" in printed
    assert (tmp_path / "record.checkpoint").is_dir()


def test_a_signal_after_the_record_was_written_loses_nothing(tmp_path):
    """With any other status Snakemake would delete the record."""
    stop = "display.finish = lambda record: (os.kill(os.getpid(), signal.SIGTERM), signal.pause())"
    status, _ = ended(tmp_path, f"{stop}\nprocess_exit.finish(record)")
    assert status == 0
    assert read_record(tmp_path / "record.json") == record("a")


def test_ignored_signals_stay_ignored(tmp_path):
    """As nohup needs it."""
    rest = "os.kill(os.getpid(), signal.SIGHUP); process_exit.finish(record)"
    command = [sys.executable, "-c", PROCESS.format(rest=rest)]
    code = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({command[0]!r}, {command!r})"
    (tmp_path / "given.json").write_text(json.dumps(record("a")))
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=importing()).returncode == 0
    assert (tmp_path / "record.json").exists()


def test_without_its_workflow_a_run_leaves_a_copy_of_its_record(tmp_path):
    rest = "os.environ['TRAINMARK_WORKFLOW_PID'] = 'gone'\nprocess_exit.finish(record)"
    status, _ = ended(tmp_path, rest, TRAINMARK_WORKFLOW_PID=str(os.getpid()))
    assert status == 0
    assert read_record(tmp_path / "record.kept.json") == read_record(tmp_path / "record.json") == record("a")


JOB = """
import sys
from trainmark.training.process_exit import workflow_is_alive
for _ in range(2):
    print(workflow_is_alive(), flush=True)
    sys.stdin.readline()
"""
WORKFLOW = f"""
import os, subprocess, sys
os.environ["{WORKFLOW_VARIABLE}"] = str(os.getpid())
subprocess.run(["/bin/sh", "-c", sys.argv[1]])
"""


def started(code, job):
    """A process that starts a job, whose workflow is alive."""
    command = [sys.executable, "-c", code, job]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=importing())
    assert process.stdout.readline() == "True\n"
    return process


def answer(process):
    """What the job says when it is asked again."""
    process.stdin.write("\n\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.parametrize("rest", ["", "; true"], ids=["the shell becomes the job", "the shell stays"])
def test_a_killed_workflow_is_not_alive(rest):
    workflow = started(WORKFLOW, f"{sys.executable} -c '{JOB}'{rest}")
    workflow.kill()
    workflow.wait()
    assert answer(workflow) == "False\n"
