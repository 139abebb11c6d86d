"""The GPU tests on stand-ins for a GPU, without the longest ones: nothing else shows that they could run on one."""

import subprocess
import sys

import pytest
from gpu_parts import stand_in
from harness import REPOSITORY

FILES = [f"tests/gpu/test_gpu_{name}.py" for name in ("frameworks", "runs", "measurements")]

pytestmark = pytest.mark.faults


def test_the_gpu_tests_pass_on_stand_ins(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--device", "gpu", "-k", "not contract"]
    done = subprocess.run([*command, *FILES], cwd=REPOSITORY, env=stand_in(tmp_path), capture_output=True, text=True)
    assert "16 passed" in done.stdout, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
