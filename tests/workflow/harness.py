"""Running snakemake as a user would, and the small experiment that the tests look at."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
FRAMEWORKS = ["chainer", "keras-tensorflow", "keras-jax"]

SECRET = "c0nfidential"

TINY = {
    "mirror": f"https://user:{SECRET}@mirror.invalid/data?sig={SECRET}",  # digits needs no file: it is not asked
    "experiments": {
        "tiny": {
            "description": "Small & <fast>.",
            "recipes": ["mnist-mlp-flux"],
            "frameworks": FRAMEWORKS,
            "devices": ["cpu"],
            "epochs": [1, 3],
            "repeats": 2,
            "batch_size": 400,
            "input": {"subtract_mean": True},
        },
        # Grey levels times 1e36 overflow float32 in the first layer: this training diverges, whatever the machine.
        "diverging": {
            "recipes": ["mnist-mlp-flux"],
            "frameworks": ["chainer", "keras-jax"],
            "devices": ["cpu"],
            "epochs": [2],
            "repeats": 1,
            "input": {"scale": 1e36},
        },
    },
}


def environment(**extra):
    """The environment of a user's shell with the virtual environment active."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"} | extra


def snakemake(folder, *arguments, **extra):
    """Run snakemake on this repository's Snakefile with its results in `folder`."""
    command = ["snakemake", "--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(folder), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(**extra), cwd=folder)
    process.printed = process.stdout + process.stderr
    return process


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
