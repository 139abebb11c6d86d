"""The stages of the GPU tests: their caps, their CPUs, and what an interrupted stage or call leaves behind."""

import os
import signal
import subprocess
import sys
import tarfile
import time

import gpu_results
import gpu_stages
import psutil
import pytest
from harness import REPOSITORY, wait_for

STAGES = """
import sys, time
from pathlib import Path

import gpu_stages

here = Path(sys.argv[1])
gpu_stages.REPOSITORY = here
gpu_stages.GRACE_SECONDS = 1
gpu_stages.machine = lambda: {"gpus": [{"reason": "no GPU"}], "cpus": 2, "python": "3", "versions": {}, "missing": {}}
gpu_stages.GATE = gpu_stages.Stage("gate", 1, 6, [("test_gate.py",)])
hangs = gpu_stages.Stage("hangs", 1, int(sys.argv[2]), [("test_hangs.py",)])
last = gpu_stages.Stage("last", 1, 20, [("test_gate.py",), ("test_fails.py",)])
gpu_stages.PARTS = {"quick": [gpu_stages.GATE, hangs, last]}
sys.exit(gpu_stages.run("quick", here / "out", time.monotonic()))
"""
"""Stages of tests that this file writes. The cap of the second one is an argument."""

TESTS = {
    "conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--device')\n",
    "test_gate.py": "def test_it_computes():\n    pass\n",
    "test_fails.py": "def test_it_fails(record_property):\n    record_property('seen', 3)\n    assert False, 'why'\n",
    "test_hangs.py": """
import subprocess, time

def test_before(record_property):
    record_property("seconds", 0.25)

def test_hangs(tmp_path):
    (tmp_path / "results" / "runs").mkdir(parents=True)
    (tmp_path / "results" / "runs" / "record.json").write_text("{}")
    child = subprocess.Popen(["sleep", "1234"])
    (tmp_path / "results" / "runs" / "child").write_text(str(child.pid))
    while True:
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            pass
""",
}


@pytest.fixture
def start(tmp_path):
    """A function that starts the stages. cap_seconds: that of the second one."""

    def start(cap_seconds):
        for name, text in TESTS.items():
            (tmp_path / name).write_text(text)
        paths = [str(REPOSITORY / "tests"), str(REPOSITORY / "workflow" / "scripts")]
        here = {name: text for name, text in os.environ.items() if "PYTEST" not in name and name != "OUT"}
        return subprocess.Popen(
            [sys.executable, "-c", STAGES, str(tmp_path), str(cap_seconds)],
            env=here | {"PYTHONPATH": os.pathsep.join(paths)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, process_group=0,
        )  # fmt: skip

    return start


def results_of(out):
    """(outcome of each test, names in the archive, the table, the process that the hanging test started)."""
    outcomes = {entry["test"]: entry["outcome"] for entry in gpu_results.read(out) if "test" in entry}
    with tarfile.open(out / gpu_results.ARCHIVE) as archive:
        names = archive.getnames()
        (child,) = [archive.extractfile(name).read() for name in names if name.endswith("/child")]
    return outcomes, names, (out / gpu_results.TABLE).read_text(), int(child)


def is_alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_stage_ends_at_its_cap_and_the_next_one_starts(start, tmp_path):
    """Its processes ignore the interrupt, and are killed."""
    process = start(4)
    printed, _ = process.communicate()
    assert process.returncode == 1, printed
    outcomes, names, table, child = results_of(tmp_path / "out")
    assert outcomes == {"test_it_computes": "passed", "test_before": "passed", "test_it_fails": "failed"}
    assert any(name.endswith("results/runs/record.json") for name in names)
    assert any(name.endswith("results/logs/hangs-0.log") for name in names)
    assert not is_alive(child)
    assert "| before | passed in 0.0 s | seconds 0.25 |" in table
    assert "| it fails | failed in 0.0 s | seen 3; AssertionError: why |" in table
    ended = {entry["stage"]: entry["ended"] for entry in gpu_results.read(tmp_path / "out") if "ended" in entry}
    assert ended == {"gate": "its end", "hangs": "its cap", "last": "its end"}


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_whole_group_loses_no_result(start, tmp_path, number):
    """As by `timeout`, which sends it twice. After SIGKILL the guard ends the tests, and packs the results."""
    process, out = start(600), tmp_path / "out"
    wait_for(lambda: list(tmp_path.glob("out/gpu.jsonl")) and "test_before" in (out / "gpu.jsonl").read_text(), process)
    time.sleep(1)
    os.kill(process.pid, number)
    os.killpg(process.pid, number)
    printed, _ = process.communicate()  # until the guard has ended: it has the pipe, too
    outcomes, names, table, child = results_of(out)
    assert process.returncode == (-number if number == signal.SIGKILL else 1), printed
    assert outcomes == {"test_it_computes": "passed", "test_before": "passed"}
    assert any(name.endswith("results/runs/record.json") for name in names)
    assert "| before | passed" in table
    assert not is_alive(child)


def test_nothing_else_runs_if_no_framework_computes(start, tmp_path, monkeypatch):
    monkeypatch.setitem(TESTS, "test_gate.py", TESTS["test_fails.py"])
    process = start(600)
    printed, _ = process.communicate()
    assert process.returncode == gpu_stages.NONE_COMPUTES, printed
    assert "no framework computes on the GPU" in printed
    assert {entry["stage"] for entry in gpu_results.read(tmp_path / "out")} == {"", "gate"}


def test_the_caps_fit_into_the_calls():
    """Those of gpu_bundle.COMMANDS: 555 s and 170 s."""
    for part, longest_seconds in (("quick", 555), ("more", 170)):
        stages = gpu_stages.PARTS[part]
        assert sum(stage.cap_seconds for stage in stages) <= longest_seconds
        assert all(stage.estimate_seconds <= stage.cap_seconds - gpu_stages.GRACE_SECONDS for stage in stages)


SELECTIONS = sorted(
    {call for part in gpu_stages.PARTS.values() for stage in part for call in stage.calls if "tests/gpu/" in call[0]}
)


@pytest.mark.slow
@pytest.mark.parametrize("call", [call for call in SELECTIONS if "-k" in call], ids="".join)
def test_each_selection_has_tests(call):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--device", "gpu"]
    done = subprocess.run([*command, *call], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
