"""What a person sees of a workflow: a line for each run and failure, a bar on a terminal, no JSON and no command."""

import io
import json
import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.console import CLEAR_LINE, Terminal
from trainmark.plan.products import RECORD, RESULTS
from trainmark.plan.run import RUN_FOLDER, Run
from trainmark.session.display import Forecast, WorkflowDisplay, last_error, show_workflow, tail
from trainmark.trainer import Trainer

RUN = {
    "experiment": "e", "recipe": "r", "dataset": "d", "trainer": "chainer-cpu",
    "epochs": "2", "repeat": "1", "key": "k",
}  # fmt: skip
NAME = "chainer on cpu, 2 epochs, repeat 1 (r on d)"
COMMAND = (
    "CalledProcessError in file x:\nCommand 'python train.py --settings {json}' returned non-zero exit status 137."
)


def record(run=RUN, wall=10.0, waited=0.0, trained=4.0, **changes):
    parts = run | {"trainer": Trainer.parse(run["trainer"]), "epochs": int(run["epochs"])}
    del parts["key"]
    return {
        "run": Run(**parts).values,
        "status": "ok", "diverged": None, "out_of_memory": None, "disturbed": None, "other_attempts": [],
        "curves": [], "resumes": 0,
        "result": {"training_seconds": trained, "test_loss": 0.5, "test_accuracy": 0.75},
        "wall_seconds": wall, "phases_seconds": {"device_wait": waited},
    } | changes  # fmt: skip


class Tty(io.StringIO):
    def isatty(self):
        return True


class Workflow:
    """A display that gets the messages of a workflow. log: of every job."""

    def __init__(self, stream, *, own_lines=True, colour=True, log="job.log", experiments=("e",)):
        self.stream, self.log = stream, log
        inner = logging.StreamHandler(stream)
        runs = [RUN | {"experiment": name, "repeat": str(repeat)} for name in experiments for repeat in (1, 2)]
        ids = list(map(RUN_FOLDER.format_map, runs))
        self.display = WorkflowDisplay(ids, inner, Terminal(stream), own_lines=own_lines, colour=colour)
        self.jobs = 0

    def send(self, message="", event=None, **extra):
        entry = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, "event": event, **extra})
        self.display.handle(entry)

    def begin(self, rule="train", wildcards=RUN):
        self.jobs += 1
        log = [self.log] if self.log else []
        self.send("Rule", "job_info", jobid=self.jobs, rule_name=rule, wildcards=wildcards, log=log)
        return self.jobs

    def end(self, job):
        self.send("Finished", "job_finished", job_id=job)

    def fail(self, job, event="job_error"):
        self.send(COMMAND, "error", exception="RuleException")
        failed = {"jobid": job, "rule_name": "train"}
        self.send("Error", event, **({"job_error_info": [failed]} if event == "group_error" else failed))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path(RESULTS, RECORD.format_map(RUN))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(record()))
    Path("job.log").write_text("")
    return file


def test_a_line_for_each_run_and_none_of_snakemakes_on_jobs():
    workflow = Workflow(stream := io.StringIO())
    workflow.display.start([RUN, RUN | {"repeat": "2"}])
    workflow.send("Select jobs to execute...")
    workflow.send("Execute 1 jobs...", "job_started", jobs=[1])
    workflow.send("python ...", "shellcmd")
    job = workflow.begin()
    workflow.end(job)
    workflow.send("1 of 9 steps done", "progress", done=1, total=9)
    workflow.send("Nothing to be done")
    workflow.display.stop()
    assert stream.getvalue() == (
        f"run 1 of 2: {NAME}: test accuracy 0.7500, test loss 0.5000, 4.00 s of training "
        "(1 of 2 done, about 10 s left)\n"
        "Nothing to be done\n"
    )


def test_the_third_run_that_other_work_disturbed_has_a_line_with_the_programs(here):
    cause = {"cause": "foreign load", "epochs": [[1, 2]], "value": 0.5, "limit": 0.04}
    programs = [{"name": "firefox", "cpu_seconds": 3.0}, {"name": "make", "cpu_seconds": 1.0}]
    here.write_text(json.dumps(record(disturbed={"causes": [cause], "programs": programs})))
    workflow = Workflow(stream := io.StringIO())
    workflow.display.advice = "; press Ctrl-C"
    for done in range(1, 5):
        workflow.display.start([RUN])
        workflow.end(workflow.begin())
        assert stream.getvalue().count("Ctrl-C") == (done >= 3)
    (line,) = [line for line in stream.getvalue().splitlines() if "Ctrl-C" in line]
    assert "mostly firefox and make" in line


def test_a_stopped_call_names_only_jobs_that_failed_by_themselves():
    workflow = Workflow(stream := io.StringIO())
    workflow.send("Terminating processes on user request, this might take some time.")
    workflow.fail(workflow.begin())
    assert workflow.display.is_stopping and "failed" not in stream.getvalue()
    Path("job.log").write_text("ValueError: a fault of its own\n")
    workflow.fail(workflow.begin())
    workflow.send("WorkflowError:\nAt least one job did not complete successfully.")
    assert stream.getvalue().count("\n") == 2 and "ValueError: a fault of its own" in stream.getvalue()


def test_snakemakes_lines_come_too_where_they_are_asked_for():
    workflow = Workflow(stream := io.StringIO(), own_lines=False)
    workflow.send("Select jobs to execute...")
    workflow.end(workflow.begin())
    assert stream.getvalue().splitlines()[:2] == ["Select jobs to execute...", "Rule"]
    assert stream.getvalue().splitlines()[-1] == "Finished"


def test_a_certificate_is_a_line_for_each_pair():
    file = Path("results/certificates/e/r/d/k.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"pairs": [{"first": "a on cpu", "second": "b on cpu", "sentence": "equal"}]}))
    workflow = Workflow(stream := io.StringIO())
    workflow.end(workflow.begin("certify", {"experiment": "e", "recipe": "r", "dataset": "d", "key": "k"}))
    assert stream.getvalue() == "parity check of e: r on d:\n  a on cpu and b on cpu: equal\n"


@pytest.mark.parametrize("event", ["job_error", "group_error"])
def test_a_failed_job_shows_its_sentence_and_its_log_and_no_command(event):
    Path("job.log").write_text("epoch 1: x\nTraceback (most recent call last):\ntrainmark.errors.DataError: bad\n")
    workflow = Workflow(stream := io.StringIO())
    workflow.fail(workflow.begin(), event)
    assert stream.getvalue() == f"failed: training {NAME}: bad; log: job.log\n"
    (failure,) = workflow.display.failures
    assert (failure.wildcards, failure.sentence) == (RUN, "bad")
    workflow.end(workflow.begin())  # it is started again and succeeds
    assert workflow.display.failures == []


@pytest.mark.parametrize(
    ("log", "end"), [("job.log", "; its log ends with: epoch 1: loss 3; log: job.log"), (None, "")]
)
def test_a_killed_job_shows_its_status_and_the_end_of_its_log(log, end):
    Path("job.log").write_text("training\nepoch 1: loss 3\n\n")
    workflow = Workflow(stream := io.StringIO(), log=log)
    workflow.fail(workflow.begin("all", {}))
    assert stream.getvalue() == f"failed: all: it ended with no exception (exit status 137){end}\n"


def test_a_logger_plugin_keeps_its_place(monkeypatch):
    monkeypatch.setattr("snakemake.logging.logger", SimpleNamespace(handlers=[]))
    assert show_workflow([], None, None) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("trainmark.errors.DeviceError: no GPU", "no GPU"),
        ("RecordError: as run_command writes it", "as run_command writes it"),
        ("ValueError: first\n\nTraceback\nKeyError: 'x'", "KeyError: 'x'"),
        ("jax.errors.JaxRuntimeError: two\nlines", "JaxRuntimeError: two lines"),
        ("epoch 3: loss 5", ""),
    ],
)
def test_the_sentence_of_a_log(text, sentence):
    Path("job.log").write_text(text)
    assert last_error(tail(Path("job.log"))) == sentence
    Path("job.log").write_bytes(b"\xff\x00\nOSError: x\n" + b"\xff" * 10)
    assert last_error(tail(Path("job.log"))).startswith("OSError: x"), "a log that is no text"
    assert tail(Path("missing")) == tail(None) == ""


# --- the bar ------------------------------------------------------------------------------------------------------


def test_a_bar_with_what_is_done_and_left_and_under_way(monkeypatch):
    monkeypatch.setattr("trainmark.session.display.REFRESH_SECONDS", 0.01)
    Path("job.log").write_text("training\nepoch 1: loss 3\n")
    workflow = Workflow(stream := Tty())
    workflow.display.start([RUN, RUN | {"repeat": "2"}])
    workflow.end(workflow.begin())
    job = workflow.begin(wildcards=RUN | {"repeat": "2"})
    time.sleep(0.2)
    workflow.end(job)
    workflow.display.stop()
    shown = stream.getvalue().split(CLEAR_LINE)
    assert any(
        line.startswith("[##########..........] 1 of 2 done, about 10 s left; training chainer on cpu")
        for line in shown
    )
    assert any("\x1b[32mtest accuracy 0.7500" in line for line in shown)
    assert stream.getvalue().endswith(CLEAR_LINE), "the bar is gone at the end"
    drawn = len(stream.getvalue())
    time.sleep(0.1)
    assert len(stream.getvalue()) == drawn


def test_no_bar_while_a_job_has_its_own(monkeypatch):
    monkeypatch.setattr("trainmark.session.display.REFRESH_SECONDS", 0.01)
    workflow = Workflow(stream := Tty(), colour=False)
    workflow.begin("download_dataset", {"dataset": "d"})
    workflow.display.start([])
    time.sleep(0.1)
    workflow.display.stop()
    assert "[" not in stream.getvalue().replace(CLEAR_LINE, "")


def test_the_time_that_is_left_is_that_of_runs_alike():
    forecast = Forecast()
    assert forecast.seconds_left([RUN], []) is None
    forecast.add(record(wall=14.0, waited=4.0, trained=4.0))  # 10 s of work, 2 s an epoch
    longer = RUN | {"epochs": "12"}
    other = RUN | {"trainer": "keras-jax-cpu"}
    at_once = 10 / 14
    assert forecast.seconds_left([RUN], []) == pytest.approx(10 / at_once, rel=0.01)
    assert forecast.seconds_left([longer, other], []) == pytest.approx((30 + 10) / at_once, rel=0.01)
    assert forecast.seconds_left([longer], [(longer, 5.0)]) == pytest.approx(25 / at_once, rel=0.01)
    assert forecast.seconds_left([RUN], [(RUN, 500.0)]) == 0, "late, and not below nothing"
