"""What a job becomes at each scheduler: its submit command, its name, and the script that runs on the node."""

import json
import platform
import shlex
import subprocess

import pytest

from trainmark.cluster.jobs import Job, node_script, submit_command, values_of
from trainmark.cluster.schedulers import SCHEDULERS
from trainmark.cluster.site import Site
from trainmark.errors import ClusterError

RUN = "results/runs/e/r/d/f-cpu/epochs-1/repeat-1"
KEY, OTHER_KEY = "0a1b2c3d-4e5f6a7b", "1a1b2c3d-4e5f6a7b"


def job(rule="train", outputs=(f"{RUN}/{KEY}/record.json",), threads=2, **resources):
    asked = {"mem_mb": 4000, "runtime": 240, "tmpdir": "/tmp", "disk_mb": 1000} | resources
    return Job(rule, outputs, threads, asked)


def command(profile, a_job, **options):
    scheduler = SCHEDULERS[profile]
    return submit_command(values_of(a_job, scheduler, Site(options=options)), scheduler)


QUARTER = {"group": None, "node_type": "q_node"}

EXPECTED = {
    "slurm": (
        "sbatch --parsable --export=ALL --requeue --open-mode=append --job-name={name} "
        "--output=results/logs/cluster/{name}.log --time=240 --mem=4000M --ntasks=1 --cpus-per-task=2"
    ),
    "gridengine": (
        "qsub -terse -V -cwd -S /bin/bash -r y -N {name} -o results/logs/cluster/{name}.log -j y -l h_rt=04:00:00 "
        "-l mem_free=4000M -pe smp 2"
    ),
}


@pytest.mark.parametrize("profile", EXPECTED)
def test_a_cpu_job(profile):
    a_job = job()
    name = f"trainmark-train-{a_job.place}-{a_job.digest}"
    assert shlex.join(command(profile, a_job)) == EXPECTED[profile].format(name=name)


@pytest.mark.parametrize(
    ("profile", "options", "asked", "words"),
    [
        ("slurm", {}, {"gpu": 1}, ["--gpus=1"]),
        ("slurm", {"gpu": {"gpu_model": "h100", "slurm_partition": "fast"}}, {"gpu": 2}, ["--gpus=h100:2"]),
        ("slurm", {"all": {"slurm_account": "a b", "qos": "q"}}, {}, ["--account=a b", "--qos=q"]),
        ("slurm", {"all": {"slurm_extra": "--nice=3 --comment='a b'"}}, {}, ["--nice=3", "--comment=a b"]),
        ("slurm", {"train": {"runtime": 7}}, {}, ["--time=7"]),
        ("slurm", {"train": {"stdout": "a/{name}.o", "stderr": "a/{name}.e"}}, {}, ["--error=a/"]),
        ("gridengine", {"all": {"gpu_resource": "cuda", "memory_resource": "m"}}, {"gpu": 1}, ["cuda=1", "m=4000M"]),
        ("gridengine", {"all": {"queue": "q", "project": "p"}}, {"gpu": 1}, ["-q", "-P", "gpu=1"]),
        ("tsubame", {"all": QUARTER, "gpu": {"node_type": "f_node", "nodes": 2}}, {"gpu": 4}, ["f_node=2"]),
    ],
)
def test_options(profile, options, asked, words):
    made = command(profile, job(**asked), **options)
    for word in words:
        assert any(one.startswith(word) for one in made), (word, made)


def test_options_of_gpu_jobs_do_not_reach_cpu_jobs_and_one_thread_needs_no_parallel_environment():
    options = {"gpu": {"slurm_partition": "gpu"}}
    assert "--partition=gpu" in command("slurm", job(gpu=1), **options)
    assert "--partition=gpu" not in command("slurm", job(), **options)
    assert "-pe" not in command("gridengine", job(threads=1))


@pytest.mark.parametrize(
    ("profile", "asked", "options", "message"),
    [
        ("slurm", {"gpus": 1}, {}, "train: Slurm has no value gpus; allowed: .*runtime.* sbatch goes into slurm_extra"),
        ("tsubame", {"gpu": 2}, QUARTER, "train: it asks for gpu=2, and the node type q_node has 1; choose another"),
        ("slurm", {}, {"stdout": "out.txt"}, "stdout: found out.txt, one file for all jobs; put {name}"),
    ],
)
def test_what_a_scheduler_can_not_be_asked_for_is_refused(profile, asked, options, message):
    with pytest.raises(ClusterError, match=message):
        command(profile, job(**asked), all=options)


def test_a_group_of_runs_has_the_time_of_all():
    of_three = job("runs-cpu-0", [f"results/runs/{i}/record.json" for i in range(3)])
    assert "--time=30" in command("slurm", of_three, train={"runtime": 10})


def test_the_sample_of_the_original_recipe_field_by_field():
    """q_node x 1, 02:30:00; nnodetype, nnodes, walltime, jobname, stdout, stderr, others and -g of its README."""
    made = command(
        "tsubame", job(gpu=1), train={"runtime": 150},
        all={
            "group": "tgc-ebdcrest", "node_type": "q_node", "nodes": 1, "jobname": "resnet50",
            "others": {"m": "abe", "p": -5}, "stdout": "out/{name}.o", "stderr": "out/{name}.e",
        },
    )  # fmt: skip
    fields = {"-g": "tgc-ebdcrest", "-m": "abe", "-p": "-5"}
    fields |= {"-N": "resnet50-train-", "-o": "out/resnet50-train-", "-e": "out/resnet50-train-"}
    for option, value in fields.items():
        assert made[made.index(option) + 1].startswith(value)
    assert {"q_node=1", "h_rt=02:30:00"} <= {*made}


def test_a_name_tells_jobs_of_other_outputs_keys_and_directories_apart(tmp_path, monkeypatch):
    one = job()
    assert (job().place, job().digest) == (one.place, one.digest)
    assert job(outputs=("other",)).place != one.place
    changed = job(outputs=(f"{RUN}/{OTHER_KEY}/record.json",))
    assert changed.place == one.place
    assert changed.digest != one.digest
    monkeypatch.chdir(tmp_path)
    assert job().place != one.place


def test_the_script_of_snakemake_is_read(tmp_path):
    properties = {
        "rule": "train", "output": ["b", "a"], "params": {"x": 1}, "log": ["l"],
        "threads": 2, "resources": {"mem_mb": 1}, "jobid": 3,
    }  # fmt: skip
    script = tmp_path / "snakejob.sh"
    script.write_text(f"#!/bin/sh\n# properties = {json.dumps(properties)}\necho\n")
    read, text = Job.read(script)
    assert read == Job("train", ("a", "b"), 2, {"mem_mb": 1}, ("l",))
    assert text == script.read_text()
    group = {
        "groupid": "runs-cpu-0",
        "output": [f"{RUN}/{KEY}/record.json"],
        "threads": 2,
        "resources": {},
        "jobid": "u",
    }
    script.write_text(f"#!/bin/sh\n# properties = {json.dumps(group)}\necho\n")
    assert Job.read(script)[0].logs == (f"{RUN.replace('runs', 'logs/train')}/{KEY}.log",)


@pytest.mark.parametrize(
    ("ends", "status", "named", "locks"),
    [("true", 0, "", f"/h/{platform.node()}"), ("exit 99", 1, "/my locks/$x", "/my locks/$x")],
)
def test_the_node_runs_the_script_and_leaves_its_exit_status(tmp_path, monkeypatch, ends, status, named, locks):
    """Grid Engine starts a job that ends with 99 again. A folder of locks that the user names is that of the job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINMARK_LOCK_FOLDER", named)
    modules = tmp_path / "my modules.sh"
    modules.write_text("FROM_MODULES=loaded\n")
    folder = tmp_path / ".snakemake/cluster/name"
    folder.mkdir(parents=True)
    (folder / "exit").write_text("of an earlier start")
    site = Site(modules=str(modules), scratch="$HOME/scratch", lock_folder="$HOME/$(hostname)")
    shown = "$FROM_MODULES $TRAINMARK_SCRATCH $TRAINMARK_LOCK_FOLDER"
    body = f'#!/bin/sh\ntest -e "{folder}/exit" && exit 9\necho "{shown}"\n{ends}\n'
    script = node_script(body, "name", {"runtime": 2}, site, ["sbatch"])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={"HOME": "/h", "PATH": "/usr/bin:/bin"}, check=False
    )
    assert done.returncode == status, done.stderr
    assert f"loaded /h/scratch {locks}\n" in done.stdout
    assert (folder / "exit").read_text().strip() == ends.replace("true", "exit 0").removeprefix("exit ")
