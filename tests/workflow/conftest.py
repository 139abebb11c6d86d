"""One small experiment, run once through the whole workflow."""

import pytest
from harness import TINY, Workflow, snakemake, write_config


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny experiment, finished."""
    folder = tmp_path_factory.mktemp("tiny")
    process = snakemake(folder, "--cores", "8", "--resources", "gpu=1", "--configfile", write_config(folder, TINY))
    assert process.returncode == 0, process.printed[-9000:]
    return Workflow(folder, process)
