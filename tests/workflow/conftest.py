"""One small experiment, run once through the whole workflow."""

import pytest
from harness import REPOSITORY, TINY, Workflow, snakemake, write_config


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny experiment, finished, with a GPU build of JAX that finds no driver."""
    folder = tmp_path_factory.mktemp("tiny")
    process = snakemake(
        folder, "--cores", "8", "--resources", "gpu=1", "--configfile", write_config(folder, TINY),
        PYTHONPATH=str(REPOSITORY / "tests" / "gpu_build_without_driver"),
    )  # fmt: skip
    assert process.returncode == 0, process.printed[-9000:]
    return Workflow(folder, process)
