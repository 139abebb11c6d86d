"""Each framework alone: does it compute on the GPU, fulfil the contract there, and does the clock wait for its work?"""

import json
import subprocess
import sys
import time

import pytest
from contract.test_contract import SUITE, run_suite
from harness import REPOSITORY, importing

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


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


def test_it_fulfils_the_contract(framework, record_property):
    record_property("tests passed", run_suite(SUITE, framework, "--device", "gpu", least=60))


def test_the_clock_waits_for_its_work(framework, record_property):
    """asynchronous_work.py enqueues products that take the GPU a while, and stops the clock with and without a wait."""
    script = REPOSITORY / "tests/gpu/asynchronous_work.py"
    done = subprocess.run(
        [sys.executable, str(script), framework], capture_output=True, text=True, env=importing(), check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    for name, value in seen.items():
        record_property(name, value)
    assert seen["without synchronize"] == "refused"
    assert seen["with synchronize"] == "accepted"
