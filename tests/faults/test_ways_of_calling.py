"""No way of calling Snakemake that makes nothing again deletes results, also where they are outdated."""

import re
import subprocess

import pytest
from harness import environment, path_with_stand_in, snakemake, write_config

from trainmark.files.checksums import sha256_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

EXPERIMENT = {
    "recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "devices": ["cpu"], "epochs": [2], "repeats": 1,
    "batch_size": 400,
}  # fmt: skip
EARLIER = {"small": EXPERIMENT, "other": EXPERIMENT}
OUTDATED = {"small": EXPERIMENT | {"repeats": 2}}
"""Asks for a run that is not there, and not for the results of the experiment `other`."""

UTILITIES = {
    "--lint": [], "--generate-unit-tests": ["unit"], "--containerize": [], "--export-cwl": ["workflow.cwl"],
    "--list-rules": [], "--list-target-rules": [], "--dag": [], "--rulegraph": [], "--filegraph": [], "--d3dag": [],
    "--summary": [], "--detailed-summary": [], "--archive": ["archive.tar.gz"],
    "--cleanup-metadata": ["results/summary.json"], "--cleanup-shadow": [], "--unlock": [], "--list-changes": ["code"],
    "--list-input-changes": [], "--list-params-changes": [], "--list-untracked": [],
    "--delete-all-output": ["--dry-run"], "--delete-temp-output": [], "--print-compilation": [],
}  # fmt: skip
"""Utilities of Snakemake, and what is given to each. Without --dry-run, a user asks for the deletion."""

NO_CALLS = {"--help", "--version", "--skip-script-cleanup", "--keep-incomplete", "--drop-metadata"}
"""Options in the same part of the help that change other calls, or call nothing."""

OTHERS = {
    "dry-run": ["--dry-run"], "touch": ["--touch"], "touch all": ["--touch", "--forceall"],
    "touch's executor": ["--executor", "touch"], "dry run's executor": ["--executor", "dryrun"],
    "report": ["--report", "report.html"], "environments": ["--sdm", "conda", "--conda-create-envs-only", "--dry-run"],
    "environments to clean": ["--conda-cleanup-envs"], "environments to list": ["--list-conda-envs"],
    "until": ["--until", "prepare_dataset"], "omit": ["--omit-from", "prepare_dataset"],
    "allowed": ["--allowed-rules", "prepare_dataset"], "batch": ["--dry-run", "--batch", "collect_records=1/2"],
    "a target": ["results/datasets/digits/mean.npy"], "no hooks": ["--no-hooks", "--touch", "--forceall"],
    "incomplete": ["--rerun-incomplete", "--touch"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished campaign, whose config has changed since."""
    folder = tmp_path_factory.mktemp("campaign")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, {"experiments": EARLIER}))
    assert process.returncode == 0, process.printed[-3000:]
    write_config(folder, {"experiments": OUTDATED})
    return folder


def content(folder):
    """The SHA-256 of each result, by its path."""
    files = [path for path in (folder / "results").rglob("*") if path.is_file() and "logs" not in path.parts]
    return {str(path.relative_to(folder)): sha256_of(path) for path in files}


def called(folder, *arguments, **extra):
    return snakemake(folder, "--cores", "2", "--configfile", "experiment.yaml", *arguments, **extra)


def test_every_utility_of_snakemake_is_tried():
    listed = subprocess.run(["snakemake", "--help"], capture_output=True, text=True, env=environment(), check=True)
    part = re.search(r"^UTILITIES:$(.*?)^\w", listed.stdout, re.MULTILINE | re.DOTALL)[1]
    assert set(re.findall(r"^  (?:-\w[\w ]*, )?(--[\w-]+)", part, re.MULTILINE)) <= UTILITIES.keys() | NO_CALLS


@pytest.mark.parametrize("name", [*UTILITIES, *OTHERS])
def test_results_stay_as_they_are(folder, name):
    before = content(folder)
    assert "results/report/index.html" in before
    process = called(folder, *(OTHERS[name] if name in OTHERS else [name, *UTILITIES[name]]))
    assert "Traceback" not in process.printed or not before.keys() - content(folder).keys()
    after = content(folder)
    assert before.keys() <= after.keys(), sorted(before.keys() - after.keys())
    changed = {path for path in before if before[path] != after[path]}
    assert changed <= {"results/plan.json"}, sorted(changed)  # a call that runs jobs writes the plan


def test_a_workflow_that_is_killed_in_its_first_job_leaves_all_results(folder, tmp_path):
    before = content(folder)
    path = path_with_stand_in(tmp_path, '#!/bin/sh\ncase "$*" in *train.py*) kill -9 $TRAINMARK_WORKFLOW_PID;; esac\n')
    process = called(folder, PATH=path)
    assert process.returncode < 0
    called(folder, "--unlock")
    assert before.keys() <= content(folder).keys()
