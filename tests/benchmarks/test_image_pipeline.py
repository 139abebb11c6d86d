"""The benchmark of the image pipeline runs and prints each of its figures; how large they are is not tested."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.benchmarks

SCRIPT = Path(__file__).parent / "image_pipeline.py"
LIBRARY = SCRIPT.parents[2] / "workflow" / "scripts"


def test_every_figure_is_printed(tmp_path):
    generator = np.random.default_rng(0)
    for number in range(20):
        coarse = Image.fromarray(generator.integers(0, 256, (8, 10, 3), np.uint8))
        coarse.resize((300, 260), Image.Resampling.BICUBIC).save(tmp_path / f"{number}.jpg")
    command = [sys.executable, SCRIPT, tmp_path, "--rounds", "1", "--workers", "2"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(LIBRARY)}, capture_output=True, text=True, check=True
    )
    for figure in (
        "mean image against Pillow's plain loop: ", "mean image against the bare decode: ",
        "largest difference from Pillow's mean: ", "packed store against decoding: ",
    ):  # fmt: skip
        assert figure in done.stdout
    assert "equal to the last bit with 1, 2 and 4 workers: yes" in done.stdout
