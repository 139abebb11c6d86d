"""Errors of ranks and threads in runs alone: the run fails, or its record contradicts itself, and names epoch and rank.

Each fault is in the adapter of a run by itself (faulty_ranks_python.py), where no certificate can see it.
"""

import json
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import AS_ROOT, calling, environment, experiment_of, keyed, on_path, record_file, snakemake, write_config

from trainmark.plan.run import Run
from trainmark.records.consistency import contradictions
from trainmark.records.record import read_record
from trainmark.trainer import Trainer

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)"),
]

TORCH = ["torch"] if find_spec("torch") else []
FRAMEWORKS = ["chainer", "flax", "keras-jax", *TORCH]
EPOCHS = 8

EXPERIMENT = experiment_of(recipes=["mnist-mlp-keras"], epochs=[EPOCHS], batch_size=100)  # with dropout
EXPERIMENTS = {
    "shared": EXPERIMENT | {"frameworks": FRAMEWORKS, "workers": [1, 2]},  # of which each has a CPU
    "alone": EXPERIMENT | {"frameworks": ["chainer", "flax", *TORCH]},  # with two
}

OTHER_WEIGHTS = r"rank 1 of 2: after epoch 4 its weights are not those of rank 0, in {} layers, from {} on"
OTHER_SHARE = r"rank {} of 2: in epoch \d it did not train its own share of the batches: in the first step its loss"

ONE_THREAD = r"the threads of \w+ after epoch 1 are 1, and before the first they were 2"

FOUND = {
    ("no exchange from update 40", "shared", "torch", 2): OTHER_WEIGHTS.format("3 of 3", "dense1"),
    ("no exchange from update 40", "shared", "chainer", 2): OTHER_WEIGHTS.format("3 of 3", "dense1"),
    ("no exchange of the last array from update 40", "shared", "chainer", 2): OTHER_WEIGHTS.format(
        r"\d of 3", r"dense\d"
    ),
    ("another rate on rank 1 from update 40", "shared", "torch", 2): OTHER_WEIGHTS.format("3 of 3", "dense1"),
    ("rank 0's share", "shared", "torch", 2): OTHER_SHARE.format(1),
    ("rank 0's share", "shared", "chainer", 2): OTHER_SHARE.format(1),
    ("rank 0's share", "shared", "flax", 2): OTHER_SHARE.format(0),
    ("rank 0's share", "shared", "keras-jax", 2): OTHER_SHARE.format(0),
    ("a batch late", "shared", "torch", 2): OTHER_SHARE.format(1),
    ("half of the share twice", "shared", "chainer", 2): OTHER_SHARE.format(1),
    ("rank 0's masks", "shared", "torch", 2): OTHER_SHARE.format(1),
    ("no barrier", "shared", "chainer", 2): r"in epoch 1 a rank (began|ended) 0\.\d+ s before another one was there",
    ("one thread of torch", "alone", "torch", 1): ONE_THREAD,
    ("one thread of BLAS", "alone", "chainer", 1): ONE_THREAD,
    ("one CPU", "alone", "flax", 1): "the CPUs that it may use after epoch 1 are 1, and before the first they were 2",
}
"""What is said of each fault in a run of an experiment and a framework with so many workers."""

NOT_FOUND = {("weights averaged from update 40", "shared", "chainer", 2)}
"""Documented limits: the replay of an epoch in another trainer is for them."""


def run_of(experiment, framework, workers):
    return Run(experiment, "mnist-mlp-keras", "digits", Trainer(framework, "cpu", workers=workers), EPOCHS, 1).id


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that trains a run with a fault; returns the errors of its log, or the contradictions of its record."""
    folder = tmp_path_factory.mktemp("shared")
    options = ("--cores", "2", "--configfile", write_config(folder, {"experiments": EXPERIMENTS}))
    printed = snakemake(folder, *options, "-np", "--workflow-profile", "none").printed
    process = snakemake(folder, *options, "--until", "train", **AS_ROOT)
    assert process.returncode == 0, process.printed
    commands = re.findall(r"(python \S*train\.py .*)$", printed, re.MULTILINE)
    path = on_path(folder, calling(Path(__file__).with_name("faulty_ranks_python.py")))

    def train(fault, experiment, framework, workers):
        run = run_of(experiment, framework, workers)
        command = next(shlex.split(command) for command in commands if f"{run} " in command)
        out = folder / command[command.index("--out") + 1]
        out.unlink(missing_ok=True)
        variables = environment(PATH=path, FAULT=fault, TRAINMARK_CHECKPOINT_SECONDS="1e9", **AS_ROOT)
        done = subprocess.run(command, cwd=folder, env=variables, check=False, timeout=300)
        log = keyed(folder, f"logs/train/{run}/{out.parent.name}.log")
        if done.returncode:
            return re.findall(r"^.*Error: (.*)$", log.read_text(), re.MULTILINE)
        return list(contradictions(json.loads(out.read_text())))

    train.folder = folder
    return train


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_runs_without_a_fault_are_not_refused(trained, framework):
    for workers in (1, 2):
        record = read_record(record_file(trained.folder, run_of("shared", framework, workers)))  # made by the fixture
    drawn = {replay["epoch"] for replay in record["replays"]}
    assert EPOCHS in drawn and len(drawn) <= 2
    assert sum(record["communication"]["alone_samples"]) == record["communication"]["samples"]
    print(framework, [[*zip(one["losses"], one["alone_losses"], strict=True)] for one in record["replays"]])


@pytest.mark.parametrize(("fault", "experiment", "framework", "workers"), FOUND)
def test_a_fault_is_named(trained, fault, experiment, framework, workers):
    if framework not in FRAMEWORKS:
        pytest.skip(f"{framework} is not installed")
    said = trained(fault, experiment, framework, workers)
    print(f"{fault}, {framework}: {said}")
    assert any(re.search(FOUND[fault, experiment, framework, workers], sentence) for sentence in said), said


@pytest.mark.parametrize(("fault", "experiment", "framework", "workers"), NOT_FOUND)
def test_what_ranks_do_not_show(trained, fault, experiment, framework, workers):
    assert trained(fault, experiment, framework, workers) == []
