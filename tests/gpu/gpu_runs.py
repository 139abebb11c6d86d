"""What the GPU tests run: single runs of train.py, as a person at a prompt starts them, and a workflow."""

import importlib.util
import json
import os
import subprocess
import sys
from itertools import chain

import numpy as np
import yaml
from harness import REPOSITORY, importing
from harness import settings as settings_of

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.frameworks.registry import known_frameworks
from trainmark.machine.cpus import allowed_cores
from trainmark.records.record import read_record
from trainmark.trainer import Trainer

GPU_PACKAGES = {"chainer": ("cupy",)}
"""Packages that a framework needs on a GPU only. The others have other builds for it."""

SETTINGS = settings_of()

QUICKLY_COMPILED = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
"""Flags of XLA with which it tries no algorithms, and compiles in a half to a third of the time.

With the first flag alone, XLA (JAX 0.11.2) refuses products of float64 that it would compute in Triton: it has no
configuration for them without trying."""


def missing_packages(framework):
    """The packages that a framework lacks for the GPU."""
    on_gpu = [package for package in GPU_PACKAGES.get(framework, ()) if importlib.util.find_spec(package) is None]
    return known_frameworks()[framework].missing_packages() + on_gpu


def installed():
    """The frameworks that have all packages for the GPU."""
    return [name for name in known_frameworks() if not missing_packages(name)]


def of_workflow():
    """Three of them, those of the libraries themselves before those of Keras: more would take too long."""
    return sorted(installed(), key=lambda name: name.startswith("keras-"))[:3]


def cpus_of_worker(number, workers):
    """The CPUs of a worker of xdist. Each has cores of its own, unless there are fewer cores than workers.

    Otherwise all would take the first ones, since each has a folder of locks of its own (tests/conftest.py).
    """
    cores = list(allowed_cores().values())
    share = len(cores) // workers
    return sorted(chain(*(cores[number * share :][:share] or cores)))


def experiments(frameworks):
    """Three experiments: the default one, the Julia benchmark's question (CPU or GPU?), and a tuned loop.

    A GPU trains one run at a time: the last two are those of the first framework alone.
    """
    digits = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())["experiments"]["digits"]
    both = {"devices": ["cpu", "gpu"]}
    digits |= both | {"frameworks": frameworks, "epochs": [5], "repeats": 2}
    one = {"datasets": ["digits"], "frameworks": frameworks[:1], "repeats": 1}
    flux = one | both | {"recipes": ["mnist-mlp-flux"], "epochs": [10], "input": {"subtract_mean": True}}
    tuned = one | {"recipes": ["mnist-mlp-keras"], "devices": ["gpu"], "loops": ["stock", "tuned"], "epochs": [3]}
    return {"digits": digits, "flux": flux, "tuned": tuned}


class Runs:
    """Runs in a folder: prepared datasets, and the commands that train on them."""

    def __init__(self, folder):
        self.folder = folder
        generator = np.random.default_rng(1)
        labels = np.arange(2000) % 10
        patterns, noise = generator.integers(0, 200, (10, 1, 28, 28)), generator.integers(0, 50, (2000, 1, 28, 28))
        self._prepare("images", (patterns[labels] + noise).astype(np.uint8), labels, image_shape=[1, 28, 28])
        np.save(folder / "mean.npy", np.zeros((1, 28, 28)))
        labels = (
            np.arange(512) % 2
        )  # few words, each of which occurs many times: the sums of their gradients are atomic
        words = generator.integers(4, 54, (512, 400)) + 50 * labels[:, None]
        self._prepare("texts", words.astype(np.int32), labels, "tokens", sequence_length=400)

    def _prepare(self, name, samples, labels, kind="images", **entry):
        """Prepare a dataset with the same samples in both splits."""
        classes = labels.max() + 1
        entry |= {"title": name, "format": "f", "classes": int(classes)}
        splits = dict.fromkeys(SPLITS, (samples, labels))
        prepare(self.folder / name, name, entry, Arrays(splits, [str(n) for n in range(classes)], kind), [], 1)

    def command(self, name, recipe, framework, device, epochs, **settings):
        """(command line, record) of a run. settings: those that differ from SETTINGS."""
        dataset = "texts" if recipe == "imdb-cnn" else "images"
        record = self.folder / "runs" / name / framework / "record.json"
        options = {
            "experiment": "gpu", "recipe": recipe, "dataset": dataset, "trainer": Trainer(framework, device),
            "dataset-folder": self.folder / dataset, "epochs": epochs, "repeat": 1, "threads": 2,
            "settings": json.dumps(SETTINGS | settings), "checkpoint-seconds": 0,
            "log": record.with_name("log"), "out": record,
        }  # fmt: skip
        if dataset == "images":
            options["mean"] = self.folder / "mean.npy"
        script = str(REPOSITORY / "workflow" / "scripts" / "train.py")
        return [sys.executable, script, *(str(part) for key in options for part in (f"--{key}", options[key]))], record

    def train(self, *arguments, environment=None, **settings):
        """Train a run and return its record."""
        command, record = self.command(*arguments, **settings)
        done = subprocess.run(command, capture_output=True, text=True, env=importing(**environment or {}), check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return read_record(record)

    def start(self, *arguments, **settings):
        """Start a run; (process, record, log)."""
        command, record = self.command(*arguments, **settings)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=importing()
        )
        return process, record, record.with_name("log")


def largest_difference(first, second):
    """Largest relative difference between the curves of two records: losses of training and of evaluation."""
    numbers = [
        [[entry["batch_loss"], *(of["loss"] for of in entry["evaluations"].values())] for entry in record["curves"]]
        for record in (first, second)
    ]
    one, other = np.array(numbers)
    return float(np.max(np.abs(one - other) / np.abs(one)))
