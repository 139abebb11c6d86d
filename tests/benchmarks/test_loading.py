"""The benchmark of the streams runs without photographs and prints each figure; how large they are is not tested."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmarks

SCRIPT = Path(__file__).parent / "loading.py"
LIBRARY = SCRIPT.parents[2] / "workflow" / "scripts"


def test_every_figure_is_printed():
    command = [sys.executable, SCRIPT, "--rounds", "1", "--files", "8", "--samples", "40", "--batch-size", "8"]
    environment = os.environ | {"PYTHONPATH": str(LIBRARY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("8 files of 500x375 (medians), 40 images an epoch")
    for way in ("files, serial", "files, thread", "files, process", "mapped, thread", "mapped, process"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"  {way}: ")]
        assert "times the bare decode" in line
        assert f"resident memory, {way}: " in done.stdout
