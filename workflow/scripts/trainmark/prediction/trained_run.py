"""Finds the trained run and opens what it labels, before predict.py waits for CPUs. Imports no numpy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trainmark.errors import DataError, RecordError, why
from trainmark.frameworks.registry import known_frameworks
from trainmark.plan.plan_file import plan_if_there
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.own import planned_recipes, register
from trainmark.recipes.recipe import Recipe
from trainmark.records.record import read_record


@dataclass(frozen=True)
class TrainedRun:
    """A trained run that can label texts. dataset_folder: the prepared dataset that it was trained on."""

    file: Path
    record: dict
    recipe: Recipe
    dataset_folder: Path


def find_run(path: Path, dataset_folder: Path | None = None) -> TrainedRun:
    """Find a run that can label texts.

    path: the run's record, or the folder that holds it.
    dataset_folder: the prepared dataset that it was trained on; None if it is in the same results folder.

    Raises RecordError if the run can't label texts, and DataError if the dataset's folder does not exist.
    """
    file = path / "record.json" if path.is_dir() else path
    record = read_record(file)
    name, framework = record["run"]["recipe"], record["run"]["framework"]
    results = _results_of(file, record)
    plan = plan_if_there(results / "plan.json")
    register(planned_recipes(plan))
    fitting = [recipe.name for recipe in RECIPES.values() if recipe.input is None]
    if name not in fitting:
        raise RecordError(f"{file} is of the recipe {name}, which labels no texts; choose one of {', '.join(fitting)}")
    if framework not in known_frameworks():
        raise RecordError(
            f"{file} is of the framework {framework}, which has no adapter here; choose a run of one of "
            f"{', '.join(known_frameworks())}"
        )
    if record["weights"] is None:
        raise RecordError(f"{file} has no trained weights: {_why_no_weights(record)}")
    weights = file.with_name(record["weights"]["file"])
    if not weights.is_file():
        raise RecordError(f"{weights}, the trained weights of the run, is missing; {_train_again(file)}")
    folder = dataset_folder or _dataset_of(results, plan, record["dataset"]["name"])
    if not folder.is_dir():
        raise DataError(
            f"{folder}, the dataset of the run, does not exist; name its prepared folder with --dataset-folder"
        )
    return TrainedRun(file, record, RECIPES[name], folder)


def _why_no_weights(record: dict) -> str:
    if record["status"] != "ok":
        return f"the status of the run is {record['status']}; choose one whose status is ok"
    return f"keep_weights was false, or the disk was full; {_train_again('the record')}"


def _train_again(record: Path | str) -> str:
    return f"set keep_weights: true, delete {record}, and run snakemake again"


def _results_of(file: Path, record: dict) -> Path:
    """Return the results folder of a run, whose record is runs/<id>/<key>/record.json in it."""
    above = file.absolute().parents
    depth: int = record["run"]["id"].count("/") + 3
    return above[min(depth, len(above) - 1)]


def _dataset_of(results: Path, plan: dict, name: str) -> Path:
    """Return a prepared dataset of a results folder, by its plan; that of any key if there is no plan."""
    planned: dict | None = plan.get("datasets", {}).get(name)
    folders = [results / planned["folder"]] if planned else (results / "datasets" / name).glob("*-*")
    first: Path = next(iter(folders), results / "datasets" / name)
    return first / "prepared"


@contextmanager
def open_texts(path: Path) -> Iterator[BinaryIO]:
    """Open a file of lines, or standard input for "-". Raises DataError if it can't be opened."""
    if path == Path("-"):
        if sys.stdin is None:
            raise DataError("standard input is closed; name a text file with one review per line")
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} can't be read {why(error, 'name a text file with one review per line')}") from error
    with stream:
        yield stream
