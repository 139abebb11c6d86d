"""Ways of calling snakemake that run no job, or only some: no result is lost, and none changes without its job."""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import TINY, on_path, snakemake, write_config

pytestmark = pytest.mark.faults

CHANGED = {
    **TINY,
    "prices": {"currency": "CHF", "cpu_hour": 1},
    "experiments": {"tiny": TINY["experiments"]["tiny"] | {"epochs": [1, 2]}},
}
"""An edited config: its tables, figures and report are outdated, runs are missing, and it lacks other experiments."""

NOT_EXECUTING = {
    "archive": ["--archive", "own.tar"],
    "environments": ["--sdm", "conda", "--conda-create-envs-only"],
    "graph": ["--dag"],
    "lint": ["--lint"],
    "list": ["--list-changes", "params"],
    "metadata": ["--cleanup-metadata", "results/summary.json"],
    "report": ["--report", "own.zip"],
    "summary": ["--detailed-summary"],
    "unlock": ["--unlock"],
    "delete": ["--delete-all-output", "--dry-run"],
    "temporary output": ["--delete-temp-output"],
    "dry run": ["--dry-run", "--forceall", "--rerun-incomplete"],
    "dry run by its executor": ["--executor", "dryrun", "--forceall"],
    "a batch": ["--batch", "collect_records=1/2", "--dry-run"],
    "touch": ["--touch"],
    "touch by its executor": ["--executor", "touch", "--forceall"],
}

TRACE = "traces/tiny/mnist-mlp-flux/digits/chainer-cpu.npz"
"""A temporary file, as a call leaves it that is killed."""

MEAN = "results/datasets/digits/mean.npy"
MEAN_ALONE = {
    "until": ["--until", "compute_mean_image", "--forcerun", "compute_mean_image"],
    "allowed rules": ["--allowed-rules", "compute_mean_image", "--forcerun", "compute_mean_image"],
    "target": [MEAN, "--force", "--target-files-omit-workdir-adjustment"],
    "target job": ["--target-jobs", "compute_mean_image:dataset=digits", "--force"],
}
"""Ways of calling that compute one mean image again, which comes out the same, and nothing else."""

WAYS = NOT_EXECUTING | MEAN_ALONE


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 by path of all results but logs."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and "logs" not in path.relative_to(folder).parts
    }


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A copy of the finished experiment, whose config was then edited."""
    folder = tmp_path_factory.mktemp("ways") / "finished"
    shutil.copytree(tiny.folder, folder)
    write_config(folder, CHANGED)
    trace = folder / "results" / TRACE
    trace.parent.mkdir(parents=True, exist_ok=True)
    trace.touch()
    kept = next((folder / "results" / "runs").rglob("record.json")).with_suffix(".kept.json")
    kept.touch()
    return folder


@pytest.fixture(scope="module")
def changes(finished, tmp_path_factory):
    """What each way of calling did to the results: {way: (paths that are gone, paths that changed)}."""
    before = contents(finished / "results")

    def call(way):
        folder = finished.with_name(way.replace(" ", "-"))
        shutil.copytree(finished, folder)
        snakemake(folder, *WAYS[way], "--cores", "1", "--configfile", "experiment.yaml")
        after = contents(folder / "results")
        shutil.rmtree(folder)
        return before.keys() - after.keys(), {name for name in before if after.get(name, before[name]) != before[name]}

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(WAYS, pool.map(call, WAYS), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_no_result_is_lost_or_changed(changes, way):
    gone, changed = changes[way]
    assert gone == ({TRACE} if way == "temporary output" else set())
    assert changed <= ({"plan.json", "made_of.json"} if way in MEAN_ALONE else set())


def test_what_a_failed_call_was_to_make_again_stays_until_its_job_starts(finished):
    """All runs are outdated, and every job fails."""
    write_config(finished, {**TINY, "experiments": {"tiny": TINY["experiments"]["tiny"] | {"batch_size": 300}}})
    before = contents(finished / "results")
    path = on_path(finished, "#!/bin/sh\nexit 1\n")
    process = snakemake(finished, "--cores", "1", "--configfile", "experiment.yaml", PATH=path)
    assert process.returncode == 1
    after = contents(finished / "results")
    assert len(before.keys() - after.keys()) == 1, "the record of the one job that started"
    assert {name for name in after if after[name] != before.get(name)} == {"plan.json"}
