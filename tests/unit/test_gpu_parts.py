"""The three parts of the GPU tests: what they take at most, their workers, and what their tests ask for."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from itertools import chain

import gpu_parts
import pytest
from gpu.gpu_runs import cpus_of_worker, experiments
from harness import FRAMEWORKS, REPOSITORY, pretended_nvidia_smi, snakemake, write_config
from parity.certify_networks import is_certified, table_lines

from trainmark.machine import cpus
from trainmark.machine.locks import hold_device
from trainmark.parity.compare import NOT_CERTIFIED, Pair
from trainmark.parity.sentences import Location


@pytest.mark.parametrize(
    ("limits", "workers", "seconds"),
    [
        ([], 2, 0),
        ([5, 4, 3], 3, 5),
        ([9, 1, 3], 2, 12),  # the third test waits for the first, although the second worker has nothing to do
    ],
)
def test_the_longest_time_is_that_of_xdists_distribution(limits, workers, seconds):
    tests = [("test_a.py", limit) for limit in limits]
    assert gpu_parts.longest_seconds(tests, workers) == seconds
    if tests:
        assert gpu_parts.longest_seconds([(gpu_parts.ALONE, 13), *tests], workers + 1) == 13


@pytest.mark.slow
def test_each_part_ends_within_nine_minutes():
    """With the frameworks that are installed here, at least those of FRAMEWORKS; a lent machine lacks TensorFlow."""
    here = os.environ | {"PYTHONPATH": str(REPOSITORY / "tests" / "cupy_stand_in")}  # Chainer needs CuPy on a GPU
    done = subprocess.run(
        [sys.executable, gpu_parts.__file__, "--list"], capture_output=True, text=True, check=True, env=here
    )
    for test in ("it computes", "it fulfils the contract"):
        assert sum(map(int, re.findall(rf"(\d+) x {test}", done.stdout))) >= len(FRAMEWORKS)
    found = re.findall(r"^(\w+): at most (\d+) min (\d+) s on 16 CPUs$", done.stdout, re.MULTILINE)
    seconds = {part: 60 * int(minutes) + int(rest) for part, minutes, rest in found}
    assert seconds.keys() == gpu_parts.PARTS.keys()
    assert max(seconds.values()) <= gpu_parts.LONGEST_SECONDS, done.stdout


@pytest.mark.parametrize("siblings", [1, 2])
def test_four_workers_use_eight_cpus(monkeypatch, tmp_path, siblings):
    """On 16 CPUs, of which one or two belong to a core; a run has two threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.setattr(cpus, "_core_of", lambda cpu: min(cpu, cpu ^ 1) if siblings == 2 else cpu)
    monkeypatch.setattr(cpus, "cpu_quota", lambda: None)
    of_workers = [cpus_of_worker(number, 4) for number in range(4)]
    assert sorted(chain(*of_workers)) == list(range(16))
    held = []
    with ExitStack() as locks:
        for number, own in enumerate(of_workers):
            monkeypatch.setattr(os, "sched_getaffinity", lambda process, own=own: set(own))
            monkeypatch.setenv("TRAINMARK_LOCK_FOLDER", str(tmp_path / f"{number}"))
            held += locks.enter_context(hold_device("cpu", 2)).cpus
    assert len(set(held)) == 8


def test_workers_share_cores_that_are_too_few(monkeypatch):
    monkeypatch.setattr("gpu.gpu_runs.allowed_cores", lambda: {0: [0, 2], 1: [1, 3]})
    assert [cpus_of_worker(number, 4) for number in range(4)] == [[0, 1, 2, 3]] * 4
    assert [cpus_of_worker(number, 2) for number in range(2)] == [[0, 2], [1, 3]]


def test_ctrl_c_stops_pytest_alone_and_the_calls_after_it(monkeypatch, tmp_path):
    handlers = []

    def interrupted(command, **_):
        handlers.append(signal.getsignal(signal.SIGINT))
        return subprocess.CompletedProcess(command, gpu_parts.INTERRUPTED)

    monkeypatch.setattr(gpu_parts, "REPOSITORY", tmp_path)
    monkeypatch.setattr(gpu_parts.subprocess, "run", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as tests/conftest.py leaves it
    try:
        assert gpu_parts.run("measurements") == gpu_parts.INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(handlers) == 1
    assert handlers[0] not in (signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN)


def test_a_machine_has_a_worker_for_four_cpus():
    call = (4, "test_a.py", "-k", "b")
    workers = [gpu_parts.options_of(call, count)[1] for count in (2, 4, 11, 16, 64)]
    assert workers == ["0", "0", "2", "4", "4"]
    assert gpu_parts.options_of(call, 16)[2:] == ["tests/gpu/test_a.py", "-k", "b"]


WRITES_ITS_WORKER = """
import time

def test_it(worker_id):
    time.sleep("workflow" in __name__)
    with open("ran", "a") as file:
        print(worker_id, __name__, file=file)
"""


@pytest.mark.slow
def test_no_test_waits_behind_the_workflow(tmp_path):
    """pytest-xdist hands each worker two tests; the one with the workflow gets no other."""
    folder = tmp_path / "tests" / "gpu"
    folder.mkdir(parents=True)
    shutil.copy(REPOSITORY / "tests" / "conftest.py", tmp_path / "tests")
    files = [folder / name for name in (gpu_parts.ALONE, *(f"test_{number}.py" for number in range(6)))]
    for file in files:
        file.write_text(WRITES_ITS_WORKER)
    command = [sys.executable, "-m", "pytest", "-n", "3", "-p", "no:cacheprovider", *map(str, files)]
    here = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        command, cwd=tmp_path, env=here | {"PYTHONPATH": str(REPOSITORY / "tests")}, capture_output=True, text=True
    )
    assert "7 passed" in done.stdout, done.stdout
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    (busy,) = [worker for worker, name in ran if name == "test_gpu_workflow"]
    assert [name for worker, name in ran if worker == busy] == ["test_gpu_workflow"]


@pytest.mark.slow
def test_the_workflow_has_the_jobs_that_its_time_is_for(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    commands = pretended_nvidia_smi(tmp_path / "bin", ["GPU-0a"])
    name = write_config(tmp_path, {"experiments": experiments(FRAMEWORKS[:3])})
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{commands}{os.pathsep}{os.environ['PATH']}"
    planned = snakemake(tmp_path, "--dry-run", "--configfile", name, PATH=path)
    assert planned.returncode == 0, planned.printed
    jobs = Counter(dict(re.findall(r"^(\w+) +(\d+)$", planned.stdout, re.MULTILINE)))
    expected = {"train": "16", "trace_training": "10", "check_gpu": "3", "time_tuning": "1", "certify": "3"}
    assert {rule: jobs[rule] for rule in expected} == expected


# --- which pairs ask for which class ------------------------------------------------------------------------------


def location(op, difference):
    return Location("steps", 1, "layer", op, "forward", difference)


def pair(parity, network="single", causes=(), reasons=()):
    stages = {} if parity == NOT_CERTIFIED else {"network": {"parity": network}, "steps": {"parity": parity}}
    return Pair("one", "other", parity, stages, None, tuple(causes), "the sentence", reasons=tuple(reasons))


DENSE, KINK = location("Dense", 3e-7), location("BatchNorm", 1e-3)


@pytest.mark.parametrize(
    ("compared", "without_float32", "with_dense"),
    [
        (pair("bitwise", "bitwise"), True, True),
        (pair("rounding", "rounding"), True, True),
        (pair("single", causes=[DENSE]), False, True),
        (pair("different", causes=[DENSE, KINK]), False, True),
        (pair("different", causes=[KINK, DENSE]), False, False),
        (pair("different", "different", causes=[DENSE]), False, False),
        (pair("different", causes=[DENSE], reasons=["the loss of epoch 2 differs"]), False, False),
        (pair("different"), False, False),
        (pair(NOT_CERTIFIED), False, False),
    ],
)
def test_pairs_are_certified_by_the_ops_that_are_computed_in_float32(compared, without_float32, with_dense):
    assert is_certified(compared, set()) == without_float32
    assert is_certified(compared, {"Dense"}) == with_dense


def test_a_trainer_that_stored_a_failure_is_shown_with_its_sentence():
    """Without traces of its stages, and so without their differences."""
    assert table_lines("recipe", [(pair(NOT_CERTIFIED), set())])[0].endswith("one and other: the sentence")
