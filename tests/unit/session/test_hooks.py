"""What happens before the first job and after the last, also of a call that fails."""

import io
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from planned_campaigns import GROUP, TRAINER, campaign_of, config_of

from trainmark.errors import WORKFLOW_VARIABLE, BusyError, DataError, DeviceError
from trainmark.frameworks.registry import check_installed
from trainmark.plan.plan_file import PARTIAL_VARIABLE, read_plan
from trainmark.session import hooks
from trainmark.session.display import Failure
from trainmark.tables.remarks import missing_lines

CHAINER = GROUP | TRAINER


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A directory to work in, and an environment that is put back."""
    monkeypatch.chdir(tmp_path)
    for name in (WORKFLOW_VARIABLE, "TRAINMARK_MIRROR", "TRAINMARK_OFFLINE"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def campaign():
    """Of four runs."""
    return campaign_of(frameworks=["chainer", "keras-jax"], epochs=[1, 2], repeats=1)


@dataclass
class Job:
    """A job of Snakemake, as far as it is looked at."""

    name: str
    wildcards_dict: dict = field(default_factory=dict)
    resources: dict = field(default_factory=dict)
    output: tuple = ()
    input: tuple = ()

    @property
    def rule(self):
        return SimpleNamespace(name=self.name)


def start(gpu_found=False, local=True, jobs=(), deployed=False, **changes):
    campaign = campaign_of(gpu_found, **changes)
    return start_of(campaign, jobs, config_of(**changes)[0], gpu_found=gpu_found, local=local, deployed=deployed)


def start_of(campaign, jobs, config=None, **options):
    here = {"gpu_found": False, "local": False, "deployed": False}
    return hooks.start_workflow(campaign, config or config_of()[0], jobs, **here | options)


# --- before the first job -----------------------------------------------------------------------------------------


def test_a_start_writes_the_plan_and_tells_the_jobs_what_no_result_depends_on():
    with start(gpu_found=True):
        plan = read_plan(Path("results/plan.json"))
        assert plan["config"]["experiments"]["small"]["devices"] == ["cpu", "gpu"], "auto is resolved once"
        assert len(plan["records"]) == len(plan["order"]) == 16
        assert "mirror" not in plan["config"]
        assert os.environ[WORKFLOW_VARIABLE] == str(os.getpid())
        assert (os.environ["TRAINMARK_MIRROR"], os.environ["TRAINMARK_OFFLINE"]) == ("/", "1")
        with pytest.raises(BusyError):
            start()


def test_a_gpu_by_name_must_be_there_where_the_jobs_run():
    with pytest.raises(DeviceError, match="the experiment small asks for the device gpu"):
        start(devices=["gpu"])
    assert not Path("results").exists()
    start(devices=["gpu"], local=False).close()


@pytest.mark.parametrize(("name", "command"), [("keras-torch", "`make torch`"), ("chainer", "`make`")])
def test_a_framework_that_is_missing_is_told_with_its_remedy(name, command, here, monkeypatch):
    """As the `python` on the path sees it, which starts the jobs."""
    check_installed(["chainer", "keras-jax"])
    (here / "python").write_text("#!/bin/sh\nshift 2\necho $*\n")
    (here / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(here), prepend=":")
    told = rf"the framework {name} needs the package .*{command} installs it in .venv, --sdm conda gives each framework"
    with pytest.raises(DeviceError, match=told):
        check_installed([name])


@pytest.mark.parametrize(
    ("local", "deployed", "jobs", "checked"),
    [
        (True, False, [Job("train", CHAINER), Job("report")], [["chainer"]]),
        (True, False, [Job("report")], [[]]),  # a laptop makes the report of a cluster's runs
        (True, True, [Job("train", CHAINER)], []),
        (False, False, [Job("train", CHAINER)], []),
    ],
)
def test_frameworks_are_checked_where_jobs_need_them_here(monkeypatch, local, deployed, jobs, checked):
    seen = []
    monkeypatch.setattr(hooks, "check_installed", lambda names: seen.append(list(names)))
    start(local=local, deployed=deployed, jobs=jobs).close()
    assert seen == checked


@pytest.mark.parametrize("make", [lambda: Path("results").write_text(""), lambda: Path("results").symlink_to("/proc")])
def test_a_results_folder_that_can_not_be_written_to(make):
    make()
    with pytest.raises(DataError, match=r"the folder .*results can't be written to \(.*\); make it writable"):
        start(local=False)


def test_kept_records_of_runs_that_are_not_trained_are_removed(campaign):
    """A call that was killed before it saw the end of its jobs leaves them."""
    kept = [Path(record).with_suffix(".kept.json") for record in campaign.records]
    for record, file in zip(campaign.records, kept, strict=True):
        file.parent.mkdir(parents=True)
        file.touch()
        Path(record).touch()
    Path(campaign.records[1]).unlink()  # and this one is not trained because the call names other targets
    to_train = Job("train", output=(campaign.records[0],))
    start_of(campaign, [to_train]).close()
    assert [file.exists() for file in kept] == [True, True, False, False]


# --- times of files ------------------------------------------------------------------------------------------------

RECORD, OWN = "results/runs/r/record.json", "own/a list.txt"
READING = [Job("train", input=(OWN, "results/not-there"), output=(RECORD,)), Job("collect_records", input=(RECORD,))]


@pytest.fixture
def ahead(campaign):
    """A function that gives files a time in the future."""

    def later(*files, seconds=7200):
        for file in (RECORD, OWN):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).touch()
        for file in files:
            os.utime(file, (time.time() + seconds,) * 2)

    return later


@pytest.mark.parametrize(
    ("late", "jobs", "told"),
    [
        ([OWN], READING, (f"{OWN} is", "own")),
        ([RECORD], READING[1:], (f"{RECORD} is", "results")),
        ([OWN, RECORD], [READING[0], Job("collect_records", input=(RECORD,))], None),
    ],
)
def test_a_time_in_the_future_is_refused_with_what_to_do(campaign, ahead, late, jobs, told):
    ahead(*late)
    with pytest.raises(DataError, match="in the future") as refused:
        start_of(campaign, jobs)
    sentence = str(refused.value)
    name, places = told or (f"{OWN} is", "own")
    assert f"the time of {name} 2 h in the future" in sentence
    assert os.system(sentence[sentence.index(f"find {places} -newermt") :]) == 0
    start_of(campaign, jobs).close()


def test_clocks_may_differ_and_what_this_call_makes_gets_a_new_time(campaign, ahead):
    ahead(RECORD)
    ahead(OWN, seconds=20)
    start_of(campaign, READING).close()


# --- the report of another config ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("job", "name", "said"), [("report", "small", 0), ("train", "x", 0), ("report", "x", 1)])
def test_the_report_of_another_config_is_not_replaced_without_a_word(campaign, capfd, job, name, said):
    planned = json.dumps({"config": {"experiments": {f"{name}.adam": {}, "small": {}}}})
    Path(hooks.PAGE).parent.mkdir(parents=True)
    Path(hooks.PAGE).touch()
    Path("results/plan.json").write_text(planned)
    start_of(campaign, [Job(job)]).close()
    assert capfd.readouterr().err.count("no longer of x, whose runs stay") == said


# --- after the last -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "not_trained", "missing"),
    [
        ([], [], {}),
        ([Failure(CHAINER | {"epochs": "1", "repeat": "1"}, "training", "bad")], [], {0: "training failed: bad"}),
        ([Failure(CHAINER, "checking", "bad")], [], {0: "checking failed: bad", 2: "checking failed: bad"}),
        ([Failure({"dataset": "digits"}, "fetching", "bad")], [0], dict.fromkeys(range(4), "fetching failed: bad")),
        ([Failure({"dataset": "mnist"}, "fetching", "bad")], [3], {3: "not trained, since another job failed"}),
    ],
)
def test_a_failed_job_costs_the_runs_that_it_was_for(campaign, failures, not_trained, missing):
    ids = [run.id for run in campaign.runs]
    found = hooks.missing_runs(campaign, failures, {ids[i] for i in not_trained})
    assert found == {ids[i]: reason for i, reason in missing.items()}


def test_the_others_have_tables_and_report_by_another_call(campaign, monkeypatch):
    calls = []
    monkeypatch.setattr(hooks, "call_again", lambda options, variables: calls.append((options, variables)))
    first = campaign.runs[0].id
    hooks.finish_without(campaign, {first: "bad"}, ["--cores", "2"], shown := io.StringIO())
    assert calls == [(["--cores", "2"], {PARTIAL_VARIABLE: "1"})]
    assert shown.getvalue() == "\n3 of 4 runs are done; making the tables and the report of these\n"
    plan = read_plan(Path("results/plan.json"))
    assert (len(plan["order"]), plan["missing"]) == (4, {first: "bad"}), "from which that call plans without it"


def test_what_is_missing_and_why():
    missing = {"e/1": "bad", "e/2": "bad", "e/3": "worse"}
    assert missing_lines({"missing": missing, "order": list("abcde")}) == [
        "Missing: 3 of 5 runs. Run snakemake again when the cause is removed.",
        "e/1 and 1 more: bad",
        "e/3: worse",
    ]
    assert missing_lines({"missing": {}, "order": []}) == []
