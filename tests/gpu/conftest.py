"""Tests that need a GPU: make test-gpu. They run what can be imported, and need no network."""

import os

import pytest
from gpu_runs import Runs, installed
from gpu_stages import STAND_IN, STAND_IN_FACTOR

from trainmark.machine.gpus import visible_gpus, where_looked


@pytest.fixture(autouse=True, scope="session")
def gpu(request):
    """The UUID of the first GPU. Without one every test is skipped."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("these tests run on a GPU if --device gpu is given, as by make test-gpu")
    if not (gpus := visible_gpus()):
        pytest.skip(f"there is no GPU to test ({where_looked()})")
    return gpus[0]


@pytest.fixture(params=installed())
def framework(request):
    """Each framework that is installed."""
    return request.param


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs in a folder of their own."""
    return Runs(tmp_path_factory.mktemp("runs"))


def pytest_collection_modifyitems(items):
    """Let tests take longer on stand-ins for a GPU."""
    for item in items if STAND_IN in os.environ else ():
        if limit := item.get_closest_marker("gpu") and item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(STAND_IN_FACTOR * limit.args[0]), append=False)
