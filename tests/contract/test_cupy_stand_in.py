"""Chainer's GPU path without a GPU: on a stand-in for CuPy, which compiles Chainer's kernels for the CPU."""

import json
import os
import shutil
import subprocess
import sys

import gpu_faults
import pytest
from harness import REPOSITORY, pretended_nvidia_smi
from test_contract import SUITE, run_suite

STAND_IN = REPOSITORY / "tests" / "cupy_stand_in"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """The environment of a process that imports the stand-in as cupy, on a machine with a GPU in nvidia-smi's list."""
    if shutil.which("g++") is None:
        pytest.skip("the kernels of Chainer need a C++ compiler, g++ (CONTRIBUTING.md)")
    commands = pretended_nvidia_smi(tmp_path_factory.mktemp("gpu") / "bin", ["GPU-0a"])
    return {
        "PYTHONPATH": os.pathsep.join([str(STAND_IN), *filter(None, sys.path)]),
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "CUDA_VISIBLE_DEVICES": "0",
        "CUPY_CACHE_DIR": str(tmp_path_factory.mktemp("kernels")),
        "TRAINMARK_LOCK_FOLDER": str(tmp_path_factory.mktemp("locks")),
    }


def test_chainer_fulfils_the_contract_on_the_gpu(stand_in):
    run_suite(SUITE, "chainer", "--device", "gpu", least=60, **stand_in)


def test_a_gpu_that_cupy_does_not_see_is_refused(stand_in):
    run_suite(f"{SUITE}::test_a_missing_gpu_is_refused", "chainer", least=1, **stand_in)


@pytest.fixture(scope="module")
def failures(stand_in):
    """The messages of failing tests by fault; see gpu_faults.py."""
    command = [sys.executable, gpu_faults.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | stand_in)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.faults
@pytest.mark.parametrize("fault", gpu_faults.FAULTS)
def test_a_fault_in_the_gpu_path_is_found(failures, fault):
    expected = gpu_faults.FAULTS[fault][-1]
    assert failures[fault].keys() == expected.keys()
    for test, message in expected.items():
        assert message in failures[fault][test], failures[fault][test][-2000:]
