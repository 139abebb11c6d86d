"""`devices: auto` is resolved once: a job that reads the Snakefile anew, on a node, takes the devices of the plan."""

import re

import pytest
from harness import snakemake, write_config

from trainmark.config.load import load_config
from trainmark.plan.campaign import Campaign
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import write_plan

SMALL = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer", "keras-jax"], "epochs": [2], "repeats": 1}
CONFIG = {"experiments": {"planned": SMALL}}  # devices: auto, by default
CERTIFICATE = "results/certificates/planned/mnist-mlp-flux/digits.json"
AS_A_JOB = ("-n", "--mode", "remote", "--workflow-profile", "none")


@pytest.fixture
def planned(tmp_path):
    """A folder with a config, and with the plan that a machine with or without a GPU made of it."""

    def plan(gpu_found: bool):
        name = write_config(tmp_path, CONFIG)
        config, catalogue = load_config([tmp_path / name])
        campaign = Campaign(with_devices(config, gpu_found), catalogue)
        write_plan(tmp_path / "results" / "plan.json", campaign.config, [], campaign.order)
        return tmp_path, ("--configfile", name)

    return plan


@pytest.mark.parametrize("gpu_found", [True, False], ids=["planned with a GPU", "planned without"])
def test_a_job_comes_to_the_runs_that_were_planned_on_another_machine(planned, gpu_found):
    """This machine has no GPU: the pairs with one are certified all the same, or are not asked for, as planned."""
    folder, config = planned(gpu_found)
    process = snakemake(folder, CERTIFICATE, *AS_A_JOB, *config)
    assert process.returncode == 0, process.printed[-3000:]
    traced = re.findall(r"framework=([\w-]+), device=(\w+)", process.stdout)
    devices = ["cpu", "gpu"] if gpu_found else ["cpu"]
    assert sorted(set(traced)) == [(name, device) for name in ("chainer", "keras-jax") for device in devices]


def test_a_job_without_the_plan_says_what_is_missing(tmp_path):
    process = snakemake(tmp_path, CERTIFICATE, *AS_A_JOB, "--configfile", write_config(tmp_path, CONFIG))
    assert process.returncode == 1
    assert "there is no plan results/plan.json on" in process.printed
