"""Each framework alone: does it compute on the GPU, and fulfil the contract there?"""

import json
import subprocess
import sys
import time

import pytest
from contract.test_contract import COMPILED_WITH_XLA, SUITE, run_suite
from gpu_runs import QUICKLY_COMPILED, installed
from harness import REPOSITORY, importing

from trainmark.frameworks.registry import known_frameworks

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(40)]


def contracts():
    """Each trainer with its time limit; what XLA compiles takes longest, and comes first."""
    trainers = [(name, loop) for name in installed() for loop in known_frameworks()[name].loops]
    for trainer in sorted(trainers, key=lambda trainer: trainer not in COMPILED_WITH_XLA):
        seconds = 200 if trainer in COMPILED_WITH_XLA else 80
        yield pytest.param(*trainer, marks=pytest.mark.timeout(seconds))


@pytest.mark.parametrize(("framework", "loop"), list(contracts()))
def test_it_fulfils_the_contract(framework, loop, record_property):
    options = ("--loop", loop, "--device", "gpu")
    passed = run_suite(SUITE, framework, *options, least=60, XLA_FLAGS=QUICKLY_COMPILED)
    record_property("tests passed", passed)


def test_it_computes_in_float32(framework, tmp_path, record_property):
    out = tmp_path / "seen.json"
    command = [sys.executable, str(REPOSITORY / "workflow/scripts/check_gpu.py"), "--framework", framework]
    begin = time.monotonic()
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, env=importing(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(out.read_text())
    record_property("device", seen["device"]["name"])
    record_property("difference from numpy", f"{seen['difference']:.1e}")
    record_property("seconds with the start", f"{time.monotonic() - begin:.1f}")
