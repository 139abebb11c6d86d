"""validate.py counts runs, and names the datasets that are prepared."""

import subprocess
import sys

from harness import REPOSITORY


def validate(config):
    """Run validate.py as a user would."""
    command = [sys.executable, "workflow/scripts/validate.py", config]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout


def test_validate_counts_runs_and_names_the_datasets_to_prepare():
    # CUDA_VISIBLE_DEVICES is empty in the tests: auto means the CPU.
    assert validate("config/originals.yaml").splitlines()[-1].startswith("350 runs in all; about ")
    assert validate("config/examples/imagenette.yaml") == "imagenette: will be prepared\n0 runs in all\n"
