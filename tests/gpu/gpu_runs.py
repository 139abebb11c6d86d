"""What the GPU tests run: single runs of train.py, as a person at a prompt starts them, and a workflow."""

import os
import subprocess
from functools import cached_property
from pathlib import Path

import numpy as np
import yaml
from gpu_stages import missing_packages
from harness import REPOSITORY, importing
from harness import settings as settings_of
from train_by_hand import command_of, plan_training, prepare_images

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.formats import idx
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, Folders
from trainmark.frameworks.registry import known_frameworks
from trainmark.records.record import read_record
from trainmark.trainer import Trainer

SETTINGS = settings_of()

MNIST_MIRROR = os.environ.get("MNIST")
"""A mirror with the files of MNIST."""


def installed():
    """The frameworks that have all packages for the GPU."""
    return [name for name in known_frameworks() if not missing_packages(name)]


class Runs:
    """Runs in a folder: prepared datasets, and the commands that train on them."""

    def __init__(self, folder):
        self.folder = folder
        generator = np.random.default_rng(1)
        labels = np.arange(2000) % 10
        patterns, noise = generator.integers(0, 200, (10, 1, 28, 28)), generator.integers(0, 50, (2000, 1, 28, 28))
        prepare_images(folder, (patterns[labels] + noise).astype(np.uint8), labels)
        labels = (
            np.arange(512) % 2
        )  # few words, each of which occurs many times: the sums of their gradients are atomic
        words = generator.integers(4, 54, (512, 400)) + 50 * labels[:, None]
        splits = dict.fromkeys(SPLITS, (words.astype(np.int32), labels))
        entry = {"title": "Texts", "format": "f", "classes": 2, "sequence_length": 400}
        prepare(folder / "texts", "texts", entry, Arrays(splits, ["0", "1"], "tokens"), [], 1)

    @cached_property
    def mnist(self):
        """The name of MNIST, or without a mirror of the images in its place."""
        if MNIST_MIRROR is None:
            return "images"
        entry = yaml.safe_load((REPOSITORY / "config" / "datasets.yaml").read_text())["mnist"]
        files = Path(MNIST_MIRROR, "mnist")
        arrays = idx.read(Folders(files, files), entry)
        del entry["samples"]  # tests have fewer
        prepare(self.folder / "mnist", "mnist", entry, arrays, [], 1)
        return "mnist"

    def command(self, name, recipe, framework, device, epochs, loop="stock", dataset=None, **settings):
        """(command line, record) of a run. settings: those that differ from SETTINGS."""
        dataset = dataset or ("texts" if recipe == "imdb-cnn" else "images")
        record = self.folder / "runs" / name / framework / "record.json"
        of = f"gpu/{recipe}/{dataset}/{Trainer(framework, device, loop)}"
        record.parent.mkdir(parents=True, exist_ok=True)
        plan_training(record.parent, of, SETTINGS | settings, self.folder)
        options = {
            "plan": record.with_name("plan.json"), "run": f"{of}/epochs-{epochs}/repeat-1",
            "threads": 4 if device == "gpu" else 2, "log": record.with_name("log"), "out": record,
        }  # fmt: skip
        return command_of(options), record

    def train(self, *arguments, environment=None, **settings):
        """Train a run and return its record."""
        command, record = self.command(*arguments, **settings)
        variables = importing(TRAINMARK_CHECKPOINT_SECONDS="0", **environment or {})
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return read_record(record)

    def start(self, *arguments, **settings):
        """Start a run; (process, record, log)."""
        command, record = self.command(*arguments, **settings)
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=importing(TRAINMARK_CHECKPOINT_SECONDS="0"),
        )
        return process, record, record.with_name("log")


def largest_difference(first, second):
    """Largest difference between the curves of two records, losses of training and of evaluation.

    Each is relative to the largest loss of its curve: after hundreds of epochs little of a loss is left.
    """
    numbers = [
        [[entry["batch_loss"], *(of["loss"] for of in entry["evaluations"].values())] for entry in record["curves"]]
        for record in (first, second)
    ]
    one, other = np.array(numbers)
    return float(np.max(np.abs(one - other) / np.max(np.abs(one), axis=0)))
