"""Each framework alone: does it compute on the GPU?"""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from gpu_runs import installed
from gpu_stages import cpus_of_worker
from harness import REPOSITORY, importing

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(40)]


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """The check of each framework as (process, its result), all started at once."""
    folder, checks = tmp_path_factory.mktemp("checks"), {}
    for number, name in enumerate(installed()):
        cpus = cpus_of_worker(number, len(installed()))
        out = folder / f"{name}.json"
        command = [sys.executable, str(REPOSITORY / "workflow/scripts/check_gpu.py"), "--framework", name]
        own_lock = importing(TRAINMARK_LOCK_FOLDER=str(folder / name))
        process = subprocess.Popen(
            [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own_lock,
            preexec_fn=partial(os.sched_setaffinity, 0, cpus),  # with locks of their own, all would take the first CPU
        )  # fmt: skip
        checks[name] = process, out
    yield checks
    for process, _ in checks.values():
        process.kill()
        process.wait()


def test_it_computes_in_float32(framework, checks, record_property):
    process, out = checks[framework]
    printed, _ = process.communicate()
    assert process.returncode == 0, printed[-3000:]
    seen = json.loads(out.read_text())
    record_property("device", seen["device"]["name"])
    record_property("difference from numpy", f"{seen['difference']:.1e}")
    record_property("seconds", f"{seen['seconds']:.1f}")
