"""Runs the contract suite over every adapter, each in a process of its own: Keras has one backend a process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.frameworks import known_frameworks

SUITE = Path(__file__).with_name("contract_suite.py")


@pytest.mark.parametrize("framework", known_frameworks())
def test_adapter_fulfils_the_contract(framework):
    missing = known_frameworks()[framework].missing_packages()
    if missing:
        pytest.skip(f"{framework}: {', '.join(missing)} is not installed (an optional extra)")
    command = [sys.executable, "-m", "pytest", str(SUITE), "--framework", framework, "-q", "-p", "no:cacheprovider"]
    suite = subprocess.run(command, capture_output=True, text=True, check=False)
    assert suite.returncode == 0, suite.stdout[-6000:] + suite.stderr[-2000:]
    passed = re.search(r"(\d+) passed", suite.stdout)
    assert int(passed[1]) >= 25 and "skipped" not in suite.stdout, suite.stdout[-2000:]
