"""A run that can score texts, by its record, and the texts: what `predict` looks at before it waits. No numpy."""

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
    """A run that can score texts. record: what its record, `file`, says. dataset_folder: what it was trained on."""

    file: Path
    record: dict
    recipe: Recipe
    dataset_folder: Path


def find_run(path: Path, dataset_folder: Path | None = None) -> TextRun:
    """A run by its record, or by the folder that holds it.

    dataset_folder: the prepared dataset that it was trained on; None where it lies in the same results as the record.
    Raises RecordError where the record is of no run that can score texts, and DataError where there is no such folder.
    """
    file = path / "record.json" if path.is_dir() else path
    record = read_record(file)
    recipe = _recipe_for_texts(file, record)
    if record["weights"] is None:
        raise RecordError(f"{file} keeps no trained weights: {_why_no_weights(record)}")
    folder = dataset_folder or _results_folder(file, record) / "datasets" / record["dataset"]["name"] / "prepared"
    if not folder.is_dir():
        raise DataError(
            f"{folder}, the dataset of the run, is not there; name its prepared folder with --dataset-folder"
        )
    return TextRun(file, record, recipe, folder)


def _recipe_for_texts(file: Path, record: dict) -> Recipe:
    name, framework = record["run"]["recipe"], record["run"]["framework"]
    for_texts = [recipe.name for recipe in RECIPES.values() if recipe.input is None]
    if name not in for_texts:
        raise RecordError(
            f"{file} is of the recipe {name}, which knows no texts; take a run of {' or '.join(for_texts)}"
        )
    if framework not in known_frameworks():
        raise RecordError(
            f"{file} is of the framework {framework}, which has no adapter here; take a run of one of "
            f"{', '.join(known_frameworks())}"
        )
    return RECIPES[name]


def _why_no_weights(record: dict) -> str:
    reasons = {
        "diverged": "the run diverged; take one whose status is ok",
        "out_of_memory": "the run ran out of memory; take one whose status is ok",
    }
    return reasons.get(
        record["status"],
        "keep_weights was false, or the disk was full; set keep_weights: true, delete the record, and run "
        "snakemake again",
    )


def _results_folder(file: Path, record: dict) -> Path:
    """The folder that holds runs and datasets: a record lies at runs/<id>/record.json below it."""
    above = file.absolute().parents
    depth: int = record["run"]["id"].count("/") + 2
    return above[min(depth, len(above) - 1)]


@contextmanager
def open_texts(path: Path | None) -> Iterator[BinaryIO]:
    """A stream of lines: a file, or standard input for None and "-". Raises DataError where it can't be opened."""
    if path in (None, Path("-")):
        if sys.stdin is None:
            raise DataError("standard input is closed; name a text file of one review a line")
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} can't be read ({error.strerror}); name a text file of one review a line") from error
    with stream:
        yield stream
