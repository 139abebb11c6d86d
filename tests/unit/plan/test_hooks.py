"""A call that fails: frameworks are checked first, and the runs that are done have a report."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.config.load import load_config
from trainmark.errors import WORKFLOW_VARIABLE, DataError, DeviceError
from trainmark.frameworks.registry import check_installed
from trainmark.plan import hooks
from trainmark.plan.campaign import Campaign
from trainmark.plan.display import Failure
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import PARTIAL_VARIABLE, read_plan
from trainmark.tables.missing import missing_lines

EXPERIMENT = {"frameworks": ["chainer", "keras-jax"], "devices": ["cpu"], "epochs": [1, 2], "repeats": 1}
CHAINER = {
    "experiment": "e", "recipe": "mnist-mlp-keras", "dataset": "digits", "framework": "chainer", "device": "cpu",
    "loop": "stock",
}  # fmt: skip


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (WORKFLOW_VARIABLE, "TRAINMARK_MIRROR", "TRAINMARK_OFFLINE"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)  # a start sets them; both lines together have them put back
    config, catalogue = load_config([], {"experiments": {"e": EXPERIMENT}})
    return Campaign(with_devices(config, gpu_found=False), catalogue)


@dataclass
class Job:
    """A job of Snakemake, as far as it is looked at."""

    name: str
    wildcards_dict: dict = field(default_factory=dict)
    output: tuple = ()

    @property
    def rule(self):
        return SimpleNamespace(name=self.name)


# --- frameworks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "command"), [("keras-torch", "`make torch`"), ("chainer", "`make`")])
def test_a_framework_that_is_missing_is_told_with_its_remedy(name, command, tmp_path, monkeypatch):
    """As the `python` on the path sees it, which starts the jobs."""
    (tmp_path / "python").write_text("#!/bin/sh\nshift 2\necho $*\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DeviceError) as caught:
        check_installed([name])
    assert f"the framework {name} needs the package" in str(caught.value)
    assert f"{command} installs it in .venv, --sdm conda gives each framework an environment of its own" in str(
        caught.value
    )


def test_frameworks_that_are_there_are_not_refused():
    check_installed(["chainer", "keras-jax"])


@pytest.mark.parametrize(
    ("local", "deployed", "jobs", "checked"),
    [
        (True, False, [Job("train", CHAINER), Job("report")], ["chainer"]),
        (True, False, [Job("report")], []),  # a laptop makes the report of a cluster's runs
        (True, True, [Job("train", CHAINER)], None),
        (False, False, [Job("train", CHAINER)], None),
    ],
)
def test_frameworks_are_checked_where_jobs_need_them_here(campaign, monkeypatch, local, deployed, jobs, checked):
    seen = []
    monkeypatch.setattr(hooks, "check_installed", lambda names: seen.append(list(names)))
    lock = hooks.start_workflow(campaign, campaign.config, jobs, gpu_found=False, local=local, deployed=deployed)
    lock.close()
    assert seen == ([] if checked is None else [checked])


@pytest.mark.parametrize("make", [lambda: Path("results").write_text(""), lambda: Path("results").symlink_to("/proc")])
def test_a_results_folder_that_can_not_be_written_to(campaign, make):
    make()
    with pytest.raises(DataError, match=r"the folder .*results can't be written to \(.*\); make it writable"):
        hooks.start_workflow(campaign, campaign.config, [], gpu_found=False, local=False, deployed=False)


# --- a call that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "not_trained", "missing"),
    [
        ([], [], {}),
        ([Failure(CHAINER | {"epochs": "1", "repeat": "1"}, "training", "bad")], [], {0: "training failed: bad"}),
        ([Failure(CHAINER, "checking", "bad")], [], {0: "checking failed: bad", 2: "checking failed: bad"}),
        ([Failure({"dataset": "digits"}, "fetching", "bad")], [0], dict.fromkeys(range(4), "fetching failed: bad")),
        ([Failure({"dataset": "mnist"}, "fetching", "bad")], [3], {3: "not trained, since another job failed"}),
        ([Failure({}, "writing the report", "bad")], [], dict.fromkeys(range(4), "writing the report failed: bad")),
    ],
)
def test_a_failed_job_costs_the_runs_that_it_was_for(campaign, failures, not_trained, missing):
    ids = [run.id for run in campaign.runs]
    found = hooks.missing_runs(campaign, failures, {ids[i] for i in not_trained})
    assert found == {ids[i]: reason for i, reason in missing.items()}


def test_the_others_have_tables_and_report_by_another_call(campaign, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "sys.argv", ["/bin/snakemake", "--configfile", "x", "y", "--cores", "2", "-d", "z", "--directory=z"]
    )
    monkeypatch.setattr(
        "subprocess.run", lambda command, env, check: calls.append((command[1:], env[PARTIAL_VARIABLE]))
    )
    first = campaign.runs[0].id
    hooks.finish_without(campaign, {first: "bad"}, "/a/Snakefile", ["/b/my.yaml"], shown := io.StringIO())
    assert calls == [
        (
            [
                "-m", "snakemake", "--cores", "2", "--forcerun", "collect_records",
                "--snakefile", "/a/Snakefile", "--configfile", "/b/my.yaml",
            ],
            "1",
        )
    ]  # fmt: skip
    assert shown.getvalue() == "\n3 of 4 runs are done; making the tables and the report of these\n"
    plan = read_plan(Path("results/plan.json"))
    assert (len(plan["runs"]), len(plan["order"]), plan["missing"]) == (3, 4, {first: "bad"})
    left = Campaign(campaign.config, campaign.catalogue, plan["missing"])
    assert [run.id for run in left.runs] == plan["runs"]
    assert left.order == campaign.order


@pytest.mark.parametrize("count", [0, 4])
def test_no_other_call_where_no_run_is_missing_or_none_is_left(campaign, monkeypatch, count):
    monkeypatch.setattr("subprocess.run", None)
    hooks.finish_without(campaign, {run.id: "bad" for run in campaign.runs[:count]}, "", [], shown := io.StringIO())
    assert shown.getvalue() == ""


def test_what_is_missing_and_why():
    missing = {"e/1": "bad", "e/2": "bad", "e/3": "worse"}
    assert missing_lines({"missing": missing, "order": list("abcde")}) == [
        "Missing: 3 of 5 runs. Run snakemake again when the cause is removed.",
        "e/1 and 1 more: bad",
        "e/3: worse",
    ]
    assert missing_lines({"missing": {}, "order": []}) == []


def test_kept_records_of_runs_that_are_not_trained_are_removed(campaign):
    """A call that was killed before it saw the end of its jobs leaves them."""
    kept = [Path(record).with_suffix(".kept.json") for record in campaign.records]
    for record, file in zip(campaign.records, kept, strict=True):
        file.parent.mkdir(parents=True)
        file.touch()
        Path(record).touch()
    Path(campaign.records[1]).unlink()  # and this one is not trained because the call names other targets
    to_train = Job("train", output=(campaign.records[0],))
    hooks.start_workflow(campaign, campaign.config, [to_train], gpu_found=False, local=False, deployed=False).close()
    assert [file.exists() for file in kept] == [True, True] + [False] * (len(kept) - 2)
