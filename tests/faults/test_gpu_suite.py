"""The GPU tests on stand-ins for a GPU: nothing else shows that they could run on one."""

import gzip
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import gpu_results
import numpy as np
import pytest
from gpu_stages import stand_in
from harness import REPOSITORY
from mirrors import put

from trainmark.datasets.formats.idx import FILES as FILES_OF_MNIST

FILES = [f"tests/gpu/test_gpu_{name}.py" for name in ("runs", "measurements")]

pytestmark = pytest.mark.faults

INTERRUPTED = """
import sys, time
from pathlib import Path

import gpu_results, gpu_stages

class Impatient(gpu_stages.Runner):
    def _is_over(self, stage, ends_at):
        of_stage = [entry for entry in gpu_results.read(self.results) if entry["stage"] == stage.name]
        measured = any(entry.get("outcome") == "passed" for entry in of_stage)
        if stage.name == "workflow":  # one test, of many runs
            measured = any(self.work.rglob("record.json"))
        return measured or super()._is_over(stage, ends_at)

gpu_stages.Runner = Impatient
gpu_stages.run("quick", Path(sys.argv[1]), time.monotonic())
"""
"""Interrupts each stage once it has measured something."""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """The environment variables of a machine that seems to have a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    here = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    return here | stand_in(tmp_path / "kernels")


def test_the_gpu_tests_pass_on_stand_ins(environment):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--device", "gpu"]
    done = subprocess.run([*command, *FILES], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert "13 passed, 1 skipped" in done.stdout, done.stdout[-6000:]


@pytest.fixture
def mnist(tmp_path):
    """A mirror with files like those of MNIST, of 1,000 images and 100."""
    digits = np.arange(1000, dtype=np.uint8) % 10
    images = np.repeat(25 * digits, 28 * 28).reshape(-1, 28, 28)
    for split, count in (("train", 1000), ("test", 100)):
        for name, array in zip(FILES_OF_MNIST[split], (images[:count], digits[:count]), strict=True):
            header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            put(tmp_path / "mnist" / name, gzip.compress(header + array.tobytes()))
    return str(tmp_path)


def test_each_stage_of_quick_leaves_what_it_measured_before_an_interrupt(environment, tmp_path, mnist):
    paths = os.pathsep.join([str(REPOSITORY / "tests"), environment["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)], env=environment | {"PYTHONPATH": paths, "MNIST": mnist},
        capture_output=True, text=True,
    )  # fmt: skip
    entries = gpu_results.read(tmp_path)
    passed = {entry["stage"] for entry in entries if entry.get("outcome") == "passed"}
    assert passed == {"gate", "contracts", "break-even", "loops"}, done.stdout + done.stderr
    interrupted = {entry["stage"] for entry in entries if entry.get("ended") == "its cap"}
    assert interrupted - {"gate"} == {"contracts", "workflow", "break-even", "loops"}  # the gate's tests end at once
    assert [entry["outcome"] for entry in entries if entry["stage"] == "images" and "test" in entry] == ["skipped"]
    with tarfile.open(tmp_path / gpu_results.ARCHIVE) as archive:
        packed = {Path(name).parts[0] for name in archive.getnames() if name.endswith("record.json")}
    assert "workflow-0" in packed
    table = (tmp_path / gpu_results.TABLE).read_text()
    assert all(f"**{stage}**" in table for stage in passed)
