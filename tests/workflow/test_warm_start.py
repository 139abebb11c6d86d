"""Runs that start from the trained weights of a run in another framework, through whole workflows."""

import shutil

import numpy as np
import pytest
from harness import keyed, record_file, snakemake, write_config

from trainmark.parity.certificate import read_certificate
from trainmark.records.record import read_record
from trainmark.records.step_losses import step_losses

pytestmark = pytest.mark.faults  # whole workflows: minutes that make test has not

RECIPE = "mnist-mlp-keras"  # its dropout makes runs evaluate before they train
COMMON = {"recipes": [RECIPE], "datasets": ["digits"], "devices": ["cpu"], "epochs": [1]}
FIRST = COMMON | {"frameworks": ["chainer"], "repeats": 1, "keep_weights": True}
WARM = COMMON | {
    "frameworks": ["keras-jax", "chainer"],
    "repeats": 2,
    "seed": 7,
    "initial_weights": "trained/weights.npz",
}
RUN = f"{{experiment}}/{RECIPE}/digits/{{framework}}-cpu/epochs-1/repeat-{{repeat}}"


def record_of(folder, experiment, framework, repeat=1):
    return read_record(file_of(folder, experiment, framework, repeat))


def file_of(folder, experiment, framework, repeat=1):
    return record_file(folder, RUN.format(experiment=experiment, framework=framework, repeat=repeat))


def run(folder, experiments):
    file = write_config(folder, {"experiments": experiments})
    return snakemake(folder, "--cores", "2", "--configfile", file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the results of runs that started from what one run of Chainer had trained."""
    folder = tmp_path_factory.mktemp("warm")
    first = run(folder, {"first": FIRST})
    assert first.returncode == 0, first.printed[-5000:]
    shutil.copytree(file_of(folder, "first", "chainer").parent, folder / "trained")
    warm = run(folder, {"warm": WARM})
    assert warm.returncode == 0, warm.printed[-5000:]
    return folder


@pytest.mark.parametrize("framework", ["keras-jax", "chainer"])
def test_runs_start_where_another_framework_ended(folder, framework):
    ended = record_of(folder, "first", "chainer")
    started, second = (record_of(folder, "warm", framework, repeat) for repeat in (1, 2))
    last, initial = ended["curves"][-1]["evaluations"]["test"], started["initial_evaluation"]
    np.testing.assert_allclose(initial["loss"], last["loss"], rtol=1e-5)
    assert initial["accuracy"] == pytest.approx(last["accuracy"], abs=1.5 / 360) and last["accuracy"] > 0.5
    assert started["inputs"]["initial_weights_sha256"] == ended["weights"]["sha256"]
    assert step_losses(started["curves"][0])[0] < step_losses(ended["curves"][0])[0] / 2
    assert second["initial_evaluation"] == initial
    assert second["curves"][0]["step_losses"] != started["curves"][0]["step_losses"], "another order of batches"
    certificate = read_certificate(keyed(folder, f"certificates/warm/{RECIPE}/digits/*.json"))
    assert certificate["settings"]["initial_weights_sha256"] == ended["weights"]["sha256"]
    assert [pair["parity"] for pair in certificate["pairs"]] in (["bitwise"], ["rounding"])
