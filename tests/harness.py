"""Running snakemake as a user would, and the small experiment that the tests look at."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import yaml

from trainmark.config import load
from trainmark.machine.variables import HARMLESS, is_read
from trainmark.plan.code_digests import run_code
from trainmark.plan.plan_file import write_plan
from trainmark.trainer import Trainer

REPOSITORY = Path(__file__).resolve().parents[1]
FRAMEWORKS = [
    "chainer",
    "flax",
    *(["keras-tensorflow"] if find_spec("tensorflow") else []),
    "keras-jax",
    *(["torch"] if find_spec("torch") else []),
]
"""The frameworks that workflows of the tests train: TensorFlow has no build for each Python, and torch is an extra."""

SECRET = "c0nfidential"

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""The variables with which Open MPI lets root start processes, as in a container."""


def experiment_of(**keys):
    """An experiment of one short run of Chainer on the CPU, unless its keys say otherwise."""
    run = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "devices": ["cpu"], "epochs": [1], "repeats": 1}
    return run | keys


DIVERGING = experiment_of(frameworks=["chainer", "keras-jax"], epochs=[2])
"""What the runs of TINY that end before their last epoch have in common."""

CPU_HOUR = 0.1
"""Price of a CPU hour in TINY."""

TINY = {
    "prices": {"currency": "CHF", "cpu_hour": CPU_HOUR},
    "mirror": f"https://user:{SECRET}@mirror.invalid/data?sig={SECRET}",  # digits needs no file: it is not asked
    "experiments": {
        "tiny": experiment_of(
            description="Small & <fast>.", frameworks=FRAMEWORKS, epochs=[1, 3], repeats=2, batch_size=400,
            input={"subtract_mean": True},
        ),
        # Grey levels times 1e36 overflow float32 in the network: infinite activations, whose differences are NaN.
        "diverging-nan": DIVERGING | {"input": {"scale": 1e36}},
        # Times 1e35, each sample's loss is finite, and their sum over a batch is not.
        "diverging-inf": DIVERGING | {"input": {"scale": 1e35}, "frameworks": ["chainer"]},
        # The interpreter and numpy alone hold more.
        "out-of-memory": DIVERGING | {"memory_limit_mib": 40, "frameworks": ["keras-jax"]},
    },
}  # fmt: skip


OWN_RECIPE = """
from trainmark.networks.graph import chain
from trainmark.recipes.recipe import InputTransform, Optimizer, Recipe


def linear(input_shape, classes):
    return chain("linear", input_shape, [("flatten", "Flatten", {}), ("fc", "Dense", {"units": classes})])


RECIPE = Recipe(
    name="linear", architecture=linear, input_shape=(1, 28, 28), initializer="torch",
    optimizer=Optimizer("momentum_sgd", 0.1, (("momentum", 0.9),)), batch_size=50, input=InputTransform(),
    evaluated_splits=("test",), published_parameters=7_850, published_classes=10, source="a test",
)
"""
"""A file of the user's with a recipe."""


def settings(**changes):
    """The settings of an experiment that a run gets, with the schema's defaults where they are not changed."""
    keys = load.shipped_files()[0]["$defs"]["experiment"]["properties"]
    return {key: keys[key]["default"] for key in load.keys_that_decide(("training", "record"))} | changes


def write_job(folder, of, files, settings, recipe, dataset=None, **experiment):
    """Write a plan with one job for a script that is started without a workflow.

    of: experiment/recipe/dataset/trainer. files: what it reads, relative to the folder. recipe: its values, or the
    command. experiment: keys of the experiment that are no settings of the job.
    """
    name, of_recipe, _, trainer = of.split("/")
    inputs = {"recipe": recipe, "initial_weights_sha256": None, "dataset": dataset}
    code = run_code(of_recipe, Trainer.parse(trainer))
    job = {"settings": settings, "inputs": inputs, "code": code, "files": files}
    plan = {"config": {"experiments": {name: experiment}}, "order": [], "records": {}, "jobs": {of: job}}
    write_plan(folder / "plan.json", plan | {"certificates": {}, "evaluations": {}})


def calling(script):
    """The text of a program that runs a Python script of the tests, which need not be executable."""
    return f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n'


def on_path(folder, text, name="python"):
    """A PATH that begins with a program of this text, in the folder bin of `folder`."""
    program = folder / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{environment()['PATH']}"


def environment(**extra):
    """The environment of a user's shell with the virtual environment active, and without settings of libraries."""
    here = {name: value for name, value in os.environ.items() if not is_read(name) or HARMLESS.search(name)}
    return here | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"} | extra


def importing(**extra):
    """The environment of a child that can import what this process can: pytest sets its path for itself alone."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | extra


def snakemake_command(folder, *arguments):
    """The command that runs snakemake with its results in `folder`."""
    repository = folder if (folder / "Snakefile").exists() else REPOSITORY
    return ["snakemake", "--snakefile", str(repository / "Snakefile"), "--directory", str(folder), *arguments]


def snakemake(folder, *arguments, **extra):
    """Run snakemake with its results in `folder`: on the Snakefile of this repository, or of the copy that it is."""
    command = snakemake_command(folder, *arguments)
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(**extra), cwd=folder)
    process.printed = process.stdout + process.stderr
    return process


def finish(folder, *arguments, **extra):
    """Run snakemake, which must succeed, and return what it printed."""
    process = snakemake(folder, *arguments, **extra)
    assert process.returncode == 0, process.printed[-6000:]
    return process.printed


def planned(folder, *arguments, **extra):
    """How many jobs of each rule the next call would run, without that of the rule all."""
    printed = finish(folder, *arguments, "-n", "--configfile", "experiment.yaml", **extra)
    counts = dict(re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE))
    return {rule: int(count) for rule, count in counts.items() if rule not in ("all", "total")}


def keyed(folder, path):
    """The one result at a path in the results of `folder`, in which `*` stands for the key."""
    (found,) = (folder / "results").glob(path)
    return found


def record_file(folder, run_id):
    """The record of a run."""
    return keyed(folder, f"runs/{run_id}/*/record.json")


def run_script(name, *arguments, **options):
    """Run a script of the workflow as a user would; its output as text."""
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(
        command, check=False, **{"env": environment(), "capture_output": True, "text": True, **options}
    )


def predict(*arguments, **options):
    """Run predict.py on a host whose CPUs no run holds."""
    here = environment(TRAINMARK_LOCK_FOLDER=os.path.join(tempfile.gettempdir(), "trainmark-locks-of-predict"))
    return run_script("predict", *arguments, env=here, **options)


def files_of(page):
    """The files that a page of docs/ shows in full, by path: blocks whose first line is a comment with it."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n(# ([\w./]+\.(?:py|yaml))\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: file for file, name in blocks}


class Wildcards(dict):
    """Snakemake's: keys that are attributes as well."""

    __getattr__ = dict.__getitem__


def copy_of_repository(folder):
    """The repository's files, as git would take them, in a folder of their own: to be changed by a test."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    return folder


def free_ports(count):
    """So many TCP ports on which nothing listens."""
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(condition, process, seconds=60):
    """Wait until a condition holds. Fails after some seconds, or if the process (None: no process) ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pretended_nvidia_smi(folder, uuids):
    """Write a program nvidia-smi that lists GPUs with these UUIDs into a new folder, and return the folder."""
    folder.mkdir()
    lines = [f"echo 'GPU {number}: pretended (UUID: {uuid})'" for number, uuid in enumerate(uuids)]
    (folder / "nvidia-smi").write_text("\n".join(["#!/bin/sh", *lines, ""]))
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def copy_with_pretended_gpus(folder, uuids):
    """A copy of the repository, a framework "pretended" that says that it trains on a GPU, and an nvidia-smi in bin."""
    copy_of_repository(folder)
    example = REPOSITORY / "tests" / "workflow" / "example" / "pretended_adapter.py"
    shutil.copy(example, folder / "workflow" / "scripts" / "trainmark" / "frameworks")
    (folder / "envs" / "pretended.yaml").write_text("dependencies: [numpy]\n")
    pretended_nvidia_smi(folder / "bin", uuids)
    return folder


def on_pretended_gpus(folder, *arguments, visible=None):
    """Run snakemake on such a copy. visible: CUDA_VISIBLE_DEVICES, which the tests otherwise set to none."""
    os.environ.pop("CUDA_VISIBLE_DEVICES")
    try:
        extra = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        path = f"{folder / 'bin'}{os.pathsep}{environment()['PATH']}"
        return snakemake(folder, *arguments, "--configfile", "experiment.yaml", PATH=path, **extra)
    finally:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def edit(path, old, new):
    """Replace one place in a file."""
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


def write_config(folder, config):
    """Write a config file and return its name."""
    (folder / "experiment.yaml").write_text(yaml.safe_dump(config))
    return "experiment.yaml"


class Workflow:
    """A finished workflow: its folder, and what snakemake printed."""

    def __init__(self, folder, process):
        self.folder = folder
        self.process = process
        self.results = folder / "results"
