"""Runs that end before their last epoch, in the frameworks in which tests/workflow/test_end_to_end.py has them not."""

from math import inf

import pytest
from harness import TINY, snakemake, write_config

from trainmark.records.record import read_record
from trainmark.records.step_losses import step_losses

OTHERS = {"diverging-inf": "keras-jax", "out-of-memory": "chainer"}


@pytest.mark.faults
def test_the_other_frameworks_leave_the_same_records(tmp_path):
    experiments = {name: TINY["experiments"][name] | {"frameworks": [other]} for name, other in OTHERS.items()}
    assert all(TINY["experiments"][name]["frameworks"] != [other] for name, other in OTHERS.items())
    files = [
        f"results/runs/{name}/mnist-mlp-flux/digits/{other}-cpu/epochs-2/repeat-1/record.json"
        for name, other in OTHERS.items()
    ]
    config = write_config(tmp_path, {"experiments": experiments})
    process = snakemake(tmp_path, *files, "--cores", "2", "--configfile", config)
    assert process.returncode == 0, process.printed[-5000:]
    diverged, exceeded = (read_record(tmp_path / file) for file in files)
    assert diverged["diverged"] == {"kind": "inf", "epoch": 1, "step": 1, "last_finite_loss": None}
    assert list(step_losses(diverged["curves"][0])) == [inf]
    assert (exceeded["status"], exceeded["curves"]) == ("out_of_memory", [])
    assert exceeded["out_of_memory"]["resident_mib"] > 40
