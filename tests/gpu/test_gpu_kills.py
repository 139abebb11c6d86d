"""Runs on the GPU that are killed, and resume."""

import os
import signal

import pytest
from gpu_runs import largest_difference
from gpu_stages import STAND_IN
from harness import wait_for

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(100)]


@pytest.mark.parametrize("recipe", ["mnist-mlp-keras", "imdb-cnn"])
def test_a_killed_run_resumes(runs, framework, recipe, record_property):
    """Two uninterrupted runs show what atomic operations change, whose order is not fixed.

    They can be equal to the last bit and the resumed one not, since each process chooses among a library's algorithms.
    """
    epochs = 6 if STAND_IN in os.environ else 100  # the kill has to come before the last, and 30 may take .3 s
    first, second = (runs.train(f"{name}-{recipe}", recipe, framework, "gpu", epochs) for name in ("first", "second"))
    process, record_file, log = runs.start(f"killed-{recipe}", recipe, framework, "gpu", epochs)
    wait_for(lambda: log.exists() and "epoch 3" in log.read_text(), process, seconds=120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not record_file.exists(), "it was killed before its end"
    resumed = runs.train(f"killed-{recipe}", recipe, framework, "gpu", epochs)
    assert resumed["resumes"] == 1
    assert len(resumed["curves"]) == epochs
    repeated, after_kill = largest_difference(first, second), largest_difference(first, resumed)
    record_property("largest difference of two uninterrupted runs", f"{repeated:.1e}")
    record_property("after a kill", f"{after_kill:.1e}")
    assert after_kill <= max(100 * repeated, 1e-3)
