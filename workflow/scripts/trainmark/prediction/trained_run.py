"""Finds the trained run and opens what it labels, before predict.py waits for CPUs. Imports no numpy."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trainmark.errors import DataError, RecordError
from trainmark.files.system_files import is_added_by_system
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import Recipe
from trainmark.records.record import read_record

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
"""Ends of the names of image files, in lower case. Files with other names in a folder are not labelled."""


@dataclass(frozen=True)
class TrainedRun:
    """A trained run that can label texts or photographs.

    dataset_folder: the prepared dataset that it was trained on.
    """

    file: Path
    record: dict
    recipe: Recipe
    dataset_folder: Path

    @property
    def takes_texts(self) -> bool:
        """Whether it labels texts; otherwise it labels photographs."""
        return self.recipe.input is None


def find_run(path: Path, dataset_folder: Path | None = None) -> TrainedRun:
    """Find a run that can label texts or photographs.

    path: the run's record, or the folder that holds it.
    dataset_folder: the prepared dataset that it was trained on; None if it is in the same results folder.

    Raises RecordError if the run can label neither, and DataError if the dataset's folder does not exist.
    """
    file = path / "record.json" if path.is_dir() else path
    record = read_record(file)
    recipe = _recipe_of(file, record)
    if record["weights"] is None:
        raise RecordError(f"{file} has no trained weights: {_why_no_weights(record)}")
    if not file.with_name(record["weights"]["file"]).is_file():
        raise RecordError(
            f"{file.with_name(record['weights']['file'])}, the trained weights of the run, is missing; unless "
            f"keep_weights is true, those of images are removed after their evaluation: {_keep_and_train(file)}"
        )
    folder = dataset_folder or _results_folder(file, record) / "datasets" / record["dataset"]["name"] / "prepared"
    if not folder.is_dir():
        raise DataError(
            f"{folder}, the dataset of the run, does not exist; name its prepared folder with --dataset-folder"
        )
    return TrainedRun(file, record, recipe, folder)


def _recipe_of(file: Path, record: dict) -> Recipe:
    name, framework = record["run"]["recipe"], record["run"]["framework"]
    fitting = [recipe.name for recipe in RECIPES.values() if recipe.input is None or recipe.input_shape[0] == 3]
    if name not in fitting:
        raise RecordError(
            f"{file} is of the recipe {name}, which labels neither texts nor photographs in colour; choose a run of "
            f"{', '.join(fitting)}"
        )
    if framework not in known_frameworks():
        raise RecordError(
            f"{file} is of the framework {framework}, which has no adapter here; choose a run of one of "
            f"{', '.join(known_frameworks())}"
        )
    return RECIPES[name]


def _why_no_weights(record: dict) -> str:
    if record["status"] != "ok":
        what = "diverged" if record["status"] == "diverged" else "ran out of memory"
        return f"the run {what}; choose one whose status is ok"
    return f"keep_weights was not true, or the disk was full; {_keep_and_train('the record')}"


def _keep_and_train(record: Path | str) -> str:
    return f"set keep_weights: true, delete {record}, and run snakemake again"


def _results_folder(file: Path, record: dict) -> Path:
    """Return the results folder, in which the record is runs/<id>/record.json."""
    above = file.absolute().parents
    depth: int = record["run"]["id"].count("/") + 2
    return above[min(depth, len(above) - 1)]


# --- what is labelled -------------------------------------------------------------------------------------------------


@contextmanager
def open_texts(paths: Sequence[Path]) -> Iterator[BinaryIO]:
    """Open a file of lines, or standard input for no path and "-". Raises DataError if it can't be opened."""
    if len(paths) > 1:
        raise DataError(f"found {len(paths)} files of texts; allowed: one, with one review per line")
    if not paths or paths[0] == Path("-"):
        if sys.stdin is None:
            raise DataError("standard input is closed; name a text file with one review per line")
        yield sys.stdin.buffer
        return
    try:
        stream = paths[0].open("rb")
    except OSError as error:
        message = f"{paths[0]} can't be read ({error.strerror}); name a text file with one review per line"
        raise DataError(message) from error
    with stream:
        yield stream


def check_photographs(paths: Sequence[Path]) -> None:
    """Raise DataError if no photograph is named. One that can't be read is not an error here: others may be."""
    if not paths:
        raise DataError("the run labels photographs, and none is named; name image files, or folders that hold some")


def photographs_in(paths: Sequence[Path]) -> Iterator[tuple[Path, str | None]]:
    """Yield each file to label with None, or a path that holds nothing to label with the reason, as a phrase.

    A folder stands for the image files in it and in the folders below it, in the order of their names; hidden files,
    what systems add, and links to folders are left out.
    """
    for path in paths:
        yield from _photographs_below(path) if os.path.isdir(path) else [(path, None)]


def _photographs_below(top: Path) -> Iterator[tuple[Path, str | None]]:
    problems: list[OSError] = []
    is_empty = True
    for folder, inner, files in os.walk(top, onerror=problems.append):
        inner[:] = sorted(name for name in inner if not (name.startswith(".") or is_added_by_system(name)))
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                is_empty = False
                yield Path(folder, name), None
    for error in problems:
        yield Path(error.filename), f"can't be read ({error.strerror})"
    if is_empty and not problems:
        yield top, f"the folder holds no image file ({', '.join(SUFFIXES)})"
