"""A run of two workers of which one dies or raises an error: it ends soon, says why, and resumes bit for bit."""

import math
import os
import re
import shlex
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from failing_rank_python import WAYS
from harness import (
    AS_ROOT,
    calling,
    environment,
    experiment_of,
    finish,
    keyed,
    on_path,
    record_file,
    snakemake,
    write_config,
)
from test_kills import curves, works_in

from trainmark.plan.run import Run
from trainmark.records.consistency import contradictions
from trainmark.records.record import read_record
from trainmark.trainer import Trainer

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)"),
]

FRAMEWORKS = ["chainer", "flax", "keras-jax", *(["torch"] if find_spec("torch") else [])]
FAILURES = int(os.environ.get("RANK_FAILURES", "1"))
"""How often rank 1 of each framework's run fails in each way."""

LONGEST_SECONDS = 30
"""Longest time from the failure of a rank to the end of the run."""

EXPERIMENT = experiment_of(
    recipes=["mnist-mlp-keras"],  # with dropout, whose masks differ between ranks
    frameworks=FRAMEWORKS, workers=[1, 2], epochs=[12],
    batch_size=100,  # the last one has 38 samples
)  # fmt: skip


def run_of(framework, workers=2):
    return Run("shared", "mnist-mlp-keras", "digits", Trainer(framework, "cpu", workers=workers), 12, 1).id


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(folder of a workflow, what it printed, the command of each run of two workers by framework)."""
    folder = tmp_path_factory.mktemp("shared")
    name = write_config(folder, {"experiments": {"shared": EXPERIMENT}})
    options = ("--cores", "2", "--configfile", name)
    commands = snakemake(folder, *options, "-np", "--workflow-profile", "none")
    process = snakemake(folder, *options, **AS_ROOT)
    assert process.returncode == 0, process.printed
    lines = re.findall(r"(python \S*train\.py .*)$", commands.printed, re.MULTILINE)
    return (
        folder,
        process.printed,
        {framework: next(line for line in lines if f"{run_of(framework)} " in line) for framework in FRAMEWORKS},
    )


def test_workers_train_what_one_trains_and_records_hold_all_ranks(shared):
    folder, printed, _ = shared
    assert f"{math.comb(2 * len(FRAMEWORKS), 2)} pairs: equal up to rounding" in printed, printed
    for framework in FRAMEWORKS:
        record = read_record(record_file(folder, run_of(framework)))
        assert list(contradictions(record)) == []
        (other,) = record["other_ranks"]
        for rank in (record, other):
            assert sum(rank["phases_seconds"].values()) == pytest.approx(rank["wall_seconds"], rel=1e-9)
        held = [set(rank["sessions"][-1]["cpus"]) for rank in (record, other)]
        assert len(held[0] | held[1]) == len(held[0]) + len(held[1]) >= 2, "no CPU is of both"
        samples, steps = 12 * record["dataset"]["samples"]["train"], 12 * 15
        assert record["counted"] == {"samples": samples, "batches": steps, "updates": steps}
        assert record["provenance"]["threads"] == len(held[0])


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_ends_soon_when_a_rank_fails_and_resumes(shared, framework, how, tmp_path):
    folder, _, commands = shared
    file = record_file(folder, run_of(framework))
    expected = curves(file)
    path = on_path(tmp_path, calling(Path(__file__).with_name("failing_rank_python.py")))
    failure = tmp_path / "failure"
    variables = environment(PATH=path, FAILURE=str(failure), TRAINMARK_CHECKPOINT_SECONDS="0", **AS_ROOT)
    log = keyed(folder, f"logs/train/{run_of(framework)}/{file.parent.name}.log")
    for _ in range(FAILURES):
        failure.write_text(how)
        failed = subprocess.run(shlex.split(commands[framework]), cwd=folder, env=variables, check=False, timeout=300)
        ended = time.monotonic()
        assert failed.returncode != 0
        assert ended - float(failure.read_text()) < LONGEST_SECONDS
        ending = [process for process in psutil.process_iter() if works_in(process, str(folder))]
        _, left = psutil.wait_procs(ending, timeout=5)  # mpirun does not wait for the ranks that it has killed
        assert left == []
        text = log.read_text()
        if how == "SIGKILL":
            assert re.search(r"rank 1 .* exited on\s+signal 9", text)
        else:
            assert text.count("RankError: rank 1 of 2: PlantedError") == 1
            assert "RankError: rank 0" not in text
        done = subprocess.run(shlex.split(commands[framework]), cwd=folder, env=variables, check=False, timeout=300)
        assert done.returncode == 0, log.read_text()
        assert curves(file) == expected
        record = read_record(file)
        assert record["resumes"] == 1
        assert len(record["other_ranks"][0]["sessions"]) == 2
        assert list(contradictions(record)) == []


def test_the_workflow_names_the_rank_that_failed(shared, tmp_path):
    folder, *_ = shared
    path = on_path(tmp_path, calling(Path(__file__).with_name("failing_rank_python.py")))
    (failure := tmp_path / "failure").write_text("PlantedError")
    record_file(folder, run_of("chainer")).unlink()
    again = ("--until", "train", "--cores", "2", "--configfile", "experiment.yaml")
    options = {"PATH": path, "FAILURE": str(failure), "TRAINMARK_CHECKPOINT_SECONDS": "0", **AS_ROOT}
    failed = snakemake(folder, *again, **options)
    assert failed.returncode == 1
    assert "failed: training chainer on cpu with 2 workers" in failed.printed
    assert "rank 1 of 2: PlantedError" in failed.printed
    finish(folder, *again, **options)
