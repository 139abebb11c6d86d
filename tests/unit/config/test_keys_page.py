"""docs/config.md is what the schema says."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def validate(*arguments):
    """Run validate.py as a user would."""
    command = [sys.executable, "workflow/scripts/validate.py", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_keys_page_is_up_to_date():
    page = (REPOSITORY / "docs" / "config.md").read_text()
    assert page == validate("--keys").stdout, "run: python workflow/scripts/validate.py --keys > docs/config.md"


def test_validate_counts_runs_and_names_the_datasets_to_prepare():
    # CUDA_VISIBLE_DEVICES is empty in the tests: auto means the CPU.
    assert validate("config/originals.yaml").stdout.splitlines()[-1].startswith("350 runs in all; about ")
    assert validate("config/examples/imagenette.yaml").stdout == "imagenette: will be prepared\n0 runs in all\n"
