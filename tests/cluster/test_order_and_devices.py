"""Runs start in the planned order, on the GPU that they were given, and on the devices that were planned."""

import re

import pytest
from campaign import Campaign
from harness import copy_with_pretended_gpus, pretended_nvidia_smi
from same_results import records_of

from trainmark.config.load import load_config
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ON_SLURM = pytest.mark.parametrize("cluster", ["slurm"], indirect=True)

UUIDS = ["GPU-aaaa", "GPU-bbbb"]


def runs(frameworks=("chainer",), devices=("cpu",), **values):
    experiment = {"recipes": ["mnist-mlp-flux"], "frameworks": list(frameworks), "devices": devices, "repeats": 1}
    return {"experiments": {"runs": experiment | values}}


def planned_order(config):
    checked, catalogue = load_config([], config)
    return make_plan(with_devices(checked, gpu_found=False), catalogue)["order"]


@ON_SLURM
def test_16_runs_start_in_the_planned_order_though_all_may_be_submitted(campaign, cluster):
    """By the scheduler's own start times, at most one run at a time."""
    scheduler, _ = cluster
    config = runs(epochs=[1, 2], repeats=8)
    ordered = campaign(config)
    ordered.run("--until", "train")
    started = {job["id"]: job["start"] for job in scheduler.finished()}
    records = records_of(ordered.results).values()
    ids = {record["run"]["id"]: record["provenance"]["scheduler"]["job_id"] for record in records}
    by_start = sorted(ids, key=lambda name: (started[ids[name]], int(ids[name])))
    assert by_start == planned_order(config)


@ON_SLURM
def test_runs_in_groups_are_submitted_together_in_the_planned_order(campaign, cluster):
    config = runs(epochs=[1, 2], repeats=3)
    grouped = campaign(config, site={"runs_per_job": 3})
    printed = grouped.run("--until", "train")
    assert "run 6 of 6" in printed
    jobs = [file.name for file in grouped.folder.glob(".snakemake/cluster/*-runs-cpu-*")]
    assert len(jobs) == 2
    records = records_of(grouped.results)
    ids = {record["provenance"]["scheduler"]["job_id"] for record in records.values()}
    assert len(ids) == 2
    started = {record["order"]["position"]: record["provenance"]["started"] for record in records.values()}  # seconds
    assert [started[position] for position in range(1, 7)] == sorted(started.values())
    assert not list(grouped.results.rglob("*.kept.json"))


def test_the_node_types_of_tsubame(tmp_path, grid_engine):
    """Its profile on this Grid Engine, which has two of each node type, and no groups."""
    options = {"all": {"group": None, "node_type": "q_node"}, "train": {"node_type": "s_gpu"}}
    site = {"options": options, "scratch": str(tmp_path / "of the node")}
    on_tsubame = Campaign(tmp_path / "campaign", runs(epochs=[1]), grid_engine, "tsubame", site=site)
    assert "run 1 of 1" in on_tsubame.run("--until", "train")
    scripts = [file.read_text() for file in on_tsubame.folder.glob(".snakemake/cluster/*-train-*/job.sh")]
    assert len(scripts) == 1
    assert "-l s_gpu=1" in scripts[0]
    assert list(tmp_path.glob("of the node/trainmark/*.npy")), "the node has the dataset's arrays"


@pytest.fixture
def pretended(tmp_path):
    """A copy of the repository with a framework that pretends to train on a GPU, and two pretended GPUs."""
    folder = tmp_path / "copy"
    folder.mkdir()
    return copy_with_pretended_gpus(folder, UUIDS)


def test_two_gpu_jobs_at_a_time_have_the_gpu_that_they_were_given(campaign, cluster, pretended):
    _, profile = cluster
    config = runs(["pretended"], devices=["cpu", "gpu"], epochs=[40], repeats=2)
    on_gpus = campaign(config, threads=1, repository=pretended)
    on_gpus.environment["PATH"] = f"{pretended / 'bin'}:{on_gpus.environment['PATH']}"
    on_gpus.run("--until", "train")
    records = records_of(on_gpus.results)
    by_device = {"cpu": {}, "gpu": {}}
    for record in records.values():
        by_device[record["run"]["device"]][record["run"]["repeat"]] = record["provenance"]["gpu"]
    used = {repeat: gpu["uuid"] for repeat, gpu in by_device["gpu"].items()}
    assert set(used.values()) == set(UUIDS), "they ran at the same time"
    assert set(by_device["cpu"].values()) == {None}
    if profile == "slurm":  # Grid Engine counts GPUs and names none
        for output in on_gpus.results.glob("logs/cluster/*-train-*.log"):
            text = output.read_text()
            given = re.search(r"CUDA_VISIBLE_DEVICES=(.*)", text)[1]
            if "trainer=pretended-gpu" in text:
                repeat = int(re.search(r"repeat=(\d)", text)[1])
                assert used[repeat] == UUIDS[int(given)]
            else:
                assert given == "not set"


@ON_SLURM
def test_devices_planned_with_a_gpu_and_run_on_nodes_without(campaign, pretended):
    config = runs(["pretended"], devices="auto", epochs=[1])
    planned = campaign(config, threads=1, repository=pretended)
    smi = pretended / "bin" / "nvidia-smi"
    smi.write_text(smi.read_text().replace("\n", '\ntest -z "$TRAINMARK_CLUSTER_JOB" || exit 9\n', 1))
    planned.environment["PATH"] = f"{pretended / 'bin'}:{planned.environment['PATH']}"
    printed = planned.run(status=1)
    assert "1 of 2 runs are done" in printed
    assert "has none that can be used (nvidia-smi -L lists no NVIDIA GPU" in printed
    assert "give its GPU jobs options that lead to nodes with a GPU (options.gpu in the site file)" in printed
    assert "Traceback" not in printed


@ON_SLURM
def test_devices_planned_without_a_gpu_and_run_on_nodes_with_one(campaign, pretended):
    """The nodes' own PATH has nvidia-smi."""
    config = runs(["pretended"], devices="auto", epochs=[1])
    modules = pretended / "modules.sh"
    modules.write_text(f"export PATH={pretended_nvidia_smi(pretended / 'on_nodes', UUIDS)}:$PATH\n")
    planned = campaign(config, site={"modules": str(modules)}, threads=1, repository=pretended)
    printed = planned.run("--until", "train")
    assert "devices: auto means the CPU alone here" in printed
    assert [record["run"]["device"] for record in records_of(planned.results).values()] == ["cpu"]
