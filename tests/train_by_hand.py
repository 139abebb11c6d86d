"""Runs of train.py without a workflow, on images made here."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from harness import REPOSITORY, importing, settings, write_job

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import recipe_values
from trainmark.records.record import read_record
from trainmark.trainer import Trainer

RECIPE = "mnist-mlp-flux"
TRAIN = REPOSITORY / "workflow" / "scripts" / "train.py"


def prepare_images(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Prepare a dataset of images with ten classes, and a mean image of zeros."""
    entry = {"title": "Images", "format": "f", "classes": 10, "image_shape": list(images.shape[1:])}
    samples = Arrays(dict.fromkeys(SPLITS, (images, labels)), list("0123456789"))
    prepare(folder / "images", "images", entry, samples, [], 1)
    np.save(folder / "mean.npy", np.zeros(images.shape[1:]))


def plan_training(folder: Path, of: str, settings: Mapping, data: Path = Path()) -> None:
    """Write a plan with the runs of a trainer, which keep their weights and are not audited.

    of: experiment/recipe/dataset/trainer. data: the folder of the prepared dataset and its mean image.
    """
    _, name, dataset, _ = of.split("/")
    recipe = RECIPES[name]
    files = {"prepared": [str(data / dataset)], "mean": [str(data / "mean.npy")] if recipe.input else []}
    write_job(folder, of, files, settings, recipe_values(recipe), "0" * 8, keep_weights=True, epochs=[], repeats=0)


def command_of(options: Mapping[str, object]) -> list[str]:
    """Return the command line of train.py with these options."""
    return [sys.executable, str(TRAIN), *(str(word) for name in options for word in (f"--{name}", options[name]))]


def train(folder: Path, framework: str, loop: str = "stock", environment: Mapping | None = None, **changes) -> dict:
    """Train an epoch of an MLP on the images of a folder, and return the record.

    environment: variables for the run. changes: settings that differ from the defaults.
    """
    of = f"e/{RECIPE}/images/{Trainer(framework, 'cpu', loop)}"
    plan_training(folder, of, settings(**changes))
    options = {"plan": "plan.json", "run": f"{of}/epochs-1/repeat-1", "threads": 2, "out": "record.json"}
    (folder / "record.json").unlink(missing_ok=True)
    variables = importing(**environment or {})
    done = subprocess.run(command_of(options), capture_output=True, text=True, cwd=folder, env=variables, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return read_record(folder / "record.json")
