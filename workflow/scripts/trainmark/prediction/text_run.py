"""Finds the trained run and opens the texts, which predict.py checks before it waits for CPUs. Imports no numpy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trainmark.errors import DataError, RecordError
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import Recipe
from trainmark.records.record import read_record


@dataclass(frozen=True)
class TextRun:
    """A trained run that can classify texts.

    file, record: its record file and the record.
    recipe: the recipe that it trained.
    dataset_folder: the prepared dataset that it was trained on.
    """

    file: Path
    record: dict
    recipe: Recipe
    dataset_folder: Path


def find_run(path: Path, dataset_folder: Path | None = None) -> TextRun:
    """Find a run that can classify texts.

    path: the run's record, or the folder that holds it.
    dataset_folder: the prepared dataset that it was trained on; None if it is in the same results folder.

    Raises RecordError if the run can't classify texts, and DataError if the dataset's folder does not exist.
    """
    file = path / "record.json" if path.is_dir() else path
    record = read_record(file)
    recipe = _recipe_for_texts(file, record)
    if record["weights"] is None:
        raise RecordError(f"{file} has no trained weights: {_why_no_weights(record)}")
    folder = dataset_folder or _results_folder(file, record) / "datasets" / record["dataset"]["name"] / "prepared"
    if not folder.is_dir():
        raise DataError(
            f"{folder}, the dataset of the run, does not exist; name its prepared folder with --dataset-folder"
        )
    return TextRun(file, record, recipe, folder)


def _recipe_for_texts(file: Path, record: dict) -> Recipe:
    name, framework = record["run"]["recipe"], record["run"]["framework"]
    for_texts = [recipe.name for recipe in RECIPES.values() if recipe.input is None]
    if name not in for_texts:
        raise RecordError(
            f"{file} is of the recipe {name}, which is not for texts; choose a run of {' or '.join(for_texts)}"
        )
    if framework not in known_frameworks():
        raise RecordError(
            f"{file} is of the framework {framework}, which has no adapter here; choose a run of one of "
            f"{', '.join(known_frameworks())}"
        )
    return RECIPES[name]


def _why_no_weights(record: dict) -> str:
    reasons = {
        "diverged": "the run diverged; choose one whose status is ok",
        "out_of_memory": "the run ran out of memory; choose one whose status is ok",
    }
    return reasons.get(
        record["status"],
        "keep_weights was false, or the disk was full; set keep_weights: true, delete the record, and run "
        "snakemake again",
    )


def _results_folder(file: Path, record: dict) -> Path:
    """Return the results folder, in which the record is runs/<id>/record.json."""
    above = file.absolute().parents
    depth: int = record["run"]["id"].count("/") + 2
    return above[min(depth, len(above) - 1)]


@contextmanager
def open_texts(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file of lines, or standard input for None and "-". Raises DataError if it can't be opened."""
    if path in (None, Path("-")):
        if sys.stdin is None:
            raise DataError("standard input is closed; name a text file with one review per line")
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        message = f"{path} can't be read ({error.strerror}); name a text file with one review per line"
        raise DataError(message) from error
    with stream:
        yield stream
