"""What is measured on a GPU that no other test uses: figures for docs/measurements.md, and whether clocks wait."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_runs import installed
from gpu_stages import STAND_IN
from harness import importing

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(30)]

SIDE = 4096
"""Rows of matrices of which 60 products, of 137 GFLOP each, take a large GPU a tenth of a second."""

STAND_IN_SIDES = {"chainer": 64, "flax": 1024, "keras-jax": 1024}
"""The same on stand-ins. That of CuPy computes at once; it then waits for as long as it is told."""


def test_a_record_shows_the_gpu(runs, framework, gpu, record_property):
    record = runs.train("shown", "mnist-mlp-keras", framework, "gpu", 5)
    assert record["status"] == "ok"
    assert record["result"]["test_accuracy"] > 0.9
    assert record["provenance"]["device"]["kind"] == "gpu"
    assert record["provenance"]["gpu"]["uuid"] == record["sessions"][0]["gpu"]
    state = record["provenance"]["gpu"]["at_start"]
    assert state["clocks_mhz"]["sm"] > 0
    assert state["throttle_reasons"] is not None
    memory_mib = record["memory"]["peak_device_mib"]
    assert 0 < memory_mib < record["provenance"]["gpu"]["memory_mib"]
    record_property("peak memory, MiB", f"{memory_mib:.0f}")
    joules, reason = (record["energy"][key] for key in ("training_joules", "reason"))
    record_property("energy, J", joules if reason is None else reason)
    record_property("SM clock at the start, MHz", state["clocks_mhz"]["sm"])
    record_property("throttled by", ", ".join(state["throttle_reasons"]) or "nothing")
    record_property("steady epoch, s", f"{record['result']['steady_epoch_seconds']:.4f}")
    assert (record["energy"]["source"] == "nvml") == (joules is not None)


def products(*arguments):
    """What products.py prints."""
    command = [sys.executable, str(Path(__file__).with_name("products.py")), *map(str, arguments)]
    here = importing(CUPY_STAND_IN_KERNEL_SECONDS="0.008")
    done = subprocess.run(command, capture_output=True, text=True, env=here, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_energy_is_that_of_the_power(gpu, record_property):
    """Ten seconds of matrix products: NVML's counter beside the mean of its power."""
    if STAND_IN in os.environ:
        pytest.skip("the counter of the stand-in does not count")
    counted, sampled = products("energy", installed()[0], gpu)
    record_property("counter, J", f"{counted:.0f}")
    record_property("mean power by time, J", f"{sampled:.0f}")
    assert counted == pytest.approx(sampled, rel=0.1)


def test_the_clock_waits_for_its_work(framework, record_property):
    side = STAND_IN_SIDES[framework] if STAND_IN in os.environ else SIDE
    seen = products("clock", framework, side)
    for name, value in seen.items():
        record_property(name, value)
    assert seen["without synchronize"] == "refused"
    assert seen["with synchronize"] == "accepted"
