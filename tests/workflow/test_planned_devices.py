"""`devices: auto` is resolved once: a job that reads the Snakefile anew, on a node, takes the devices of the plan."""

import re

from harness import finish, snakemake, write_config

from trainmark.config.load import load_config
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import write_plan

SMALL = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer", "keras-jax"], "epochs": [2], "repeats": 1}
CONFIG = {"experiments": {"planned": SMALL}}  # devices: auto, by default
GROUP = "planned/mnist-mlp-flux/digits"
AS_A_JOB = ("-n", "--mode", "remote", "--workflow-profile", "none")


def test_a_job_comes_to_the_runs_that_were_planned_on_another_machine(tmp_path):
    """This machine has no GPU: the pairs with one are certified all the same, as planned."""
    name = write_config(tmp_path, CONFIG)
    config, catalogue = load_config([tmp_path / name])
    plan = make_plan(with_devices(config, gpu_found=True), catalogue)
    write_plan(tmp_path / "results" / "plan.json", plan)
    certificate = f"results/{plan['certificates'][GROUP]['file']}"
    process = snakemake(tmp_path, certificate, *AS_A_JOB, "--configfile", name)
    assert process.returncode == 0, process.printed[-3000:]
    traced = re.findall(r"trainer=([\w-]+)", process.stdout)
    assert sorted(set(traced)) == [f"{name}-{device}" for name in ("chainer", "keras-jax") for device in ("cpu", "gpu")]


def test_every_timed_job_on_a_gpu_has_the_threads_of_its_runs_and_a_training_has_the_gpu(tmp_path):
    """Those of the certificate and of the timing of the tuned loop, too."""
    tuned = SMALL | {
        "frameworks": ["chainer"],
        "devices": ["cpu", "gpu"],
        "loops": ["stock", "tuned"],
        "time_tuning": True,
    }
    name = write_config(tmp_path, {"experiments": {"planned": tuned}})
    printed = finish(tmp_path, "-n", "-p", "--cores", "6", "--workflow-profile", "none", "--configfile", name)
    jobs = re.findall(
        r"/(train|trace_training|time_tuning)\.py .*--(?:run|job) \S*/chainer-(cpu|gpu)\S* .*--threads (\d)", printed
    )
    trainings = [job for job in re.split(r"\n(?:local)?rule ", printed) if job.startswith("train:")]
    resources = {
        re.search(r"trainer=chainer-(\w+)", job)[1]: re.search(r"resources: (.*)", job)[1] for job in trainings
    }
    assert "gpu=1" in resources["gpu"] and "gpu" not in resources["cpu"]
    threads = {"cpu": "2", "gpu": "4"}
    assert set(jobs) == {
        (rule, device, threads[device]) for rule in ("train", "trace_training", "time_tuning") for device in threads
    }
