"""One small experiment, run once through the whole workflow."""

import pytest
from harness import REPOSITORY, TINY, Workflow, snakemake, write_config

HOSTILE = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYTHONSAFEPATH": "1",
    "JAX_NUMPY_RANK_PROMOTION": "raise", "JAX_DEBUG_NANS": "1",
    "JAX_TRANSFER_GUARD": "disallow", "JAX_DEFAULT_PRNG_IMPL": "rbg", "KERAS_HOME": "/nonexistent",
    "CHAINER_SEED": "x", "SLURM_MEM_PER_NODE": "64G", "TRAINMARK_CHECKPOINT_SECONDS": "",
}  # fmt: skip
"""Settings of a user that libraries read, and that would make jobs fail or change their results.

PYTHONOPTIMIZE, with which each process compiles its modules anew, has tests/faults/test_removed_weights.py.
"""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny experiment, finished, with a GPU build of JAX that finds no driver and hostile settings."""
    folder = tmp_path_factory.mktemp("tiny")
    process = snakemake(
        folder, "--cores", "8", "--resources", "gpu=1", "--configfile", write_config(folder, TINY),
        PYTHONPATH=str(REPOSITORY / "tests" / "gpu_build_without_driver"), **HOSTILE,
    )  # fmt: skip
    assert process.returncode == 0, process.printed[-9000:]
    return Workflow(folder, process)
