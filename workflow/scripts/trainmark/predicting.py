"""Classes of texts by the network of a trained run: the same words, ids and length as in its training."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np

from trainmark import prepared
from trainmark.architecture import Architecture
from trainmark.errors import DataError, RecordError
from trainmark.frameworks import create_adapter, known_frameworks
from trainmark.frameworks.base import Adapter, evaluation_batch_size
from trainmark.kept_weights import read_weights
from trainmark.outcomes import probabilities
from trainmark.recipe import Recipe
from trainmark.recipes import RECIPES
from trainmark.records import read_record
from trainmark.tokens import Vocabulary
from trainmark.weights import Weights

MAX_TEXT_BYTES = 1 << 20
"""Of one line; the longest of IMDB's 50,000 reviews has under 14 KiB."""


@dataclass(frozen=True)
class TrainedRun:
    """A run on texts: what its record says, its trained weights, and what turns a text into `length` token ids."""

    framework: str
    dtype: str
    recipe: Recipe
    architecture: Architecture
    weights: Weights
    vocabulary: Vocabulary
    length: int
    class_names: list[str]


def read_run(path: Path, dataset_folder: Path | None = None) -> TrainedRun:
    """A run by its record, or by the folder that holds it.

    dataset_folder: the prepared dataset that it was trained on; None where it lies in the same results as the record.
    Raises RecordError where the record is of no run that can score texts, and DataError where the dataset lacks.
    """
    file = path / "record.json" if path.is_dir() else path
    record = read_record(file)
    recipe = _recipe_for_texts(file, record)
    manifest, vocabulary = _dataset(file, record, dataset_folder)
    (length,) = manifest["sample_shape"]
    architecture = recipe.architecture((length,), manifest["classes"])
    return TrainedRun(
        record["run"]["framework"],
        record["settings"]["dtype"],
        recipe,
        architecture,
        read_weights(file, record, architecture),
        vocabulary,
        length,
        manifest["class_names"],
    )


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


def _dataset(file: Path, record: dict, folder: Path | None) -> tuple[dict, Vocabulary]:
    """(manifest, vocabulary) of the prepared dataset that a record's run was trained on."""
    name = record["dataset"]["name"]
    folder = folder or _results_folder(file, record) / "datasets" / name / "prepared"
    if not folder.is_dir():
        raise DataError(
            f"{folder}, the dataset of the run, is not there; name its prepared folder with --dataset-folder"
        )
    manifest = prepared.read_manifest(folder)
    if manifest["content_sha256"] != record["dataset"]["content_sha256"]:
        raise DataError(
            f"{folder} holds another dataset, or another version of {name}, than {file} was trained on; name the "
            "right one with --dataset-folder, or train the run again"
        )
    vocabulary = prepared.read_vocabulary(folder)
    if vocabulary is None:
        raise DataError(
            f"{folder} keeps no vocabulary, since {name} was encoded elsewhere: its words are not known; take a run "
            "that was trained on raw reviews, as those of imdb are"
        )
    return manifest, vocabulary


def _results_folder(file: Path, record: dict) -> Path:
    """The folder that holds runs and datasets: a record lies at runs/<id>/record.json below it."""
    above = file.absolute().parents
    return above[min(record["run"]["id"].count("/") + 2, len(above) - 1)]


class Predictor:
    """The network of a run, built by its own framework's adapter. Raises DeviceError where that or a GPU is missing."""

    def __init__(self, run: TrainedRun, device: str, threads: int) -> None:
        self._run = run
        self._adapter: Adapter = create_adapter(run.framework, threads)
        self._adapter.build(
            architecture=run.architecture,
            weights=run.weights,
            optimizer=run.recipe.optimizer,
            device=device,
            dtype=run.dtype,
        )

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Probability of each class, float64 (texts, classes)."""
        ids = np.stack([self._run.vocabulary.encode(text, self._run.length) for text in texts])
        self._adapter.load(split="test", inputs=ids, labels=np.zeros(len(texts), np.int64))
        return probabilities(self._adapter.predict("test"))


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


def texts_of(lines: BinaryIO, name: str) -> Iterator[str]:
    """The text of each line, without its end. An empty line is a text without words, as some reviews are.

    Raises DataError where a line is not UTF-8, or is longer than MAX_TEXT_BYTES.
    """
    for number in itertools.count(1):
        line = lines.readline(MAX_TEXT_BYTES + 1)
        if not line:
            return
        if len(line) > MAX_TEXT_BYTES:
            raise DataError(f"{name}, line {number}: it has more than {MAX_TEXT_BYTES} bytes; write one review a line")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: it is not UTF-8 text (byte {error.start + 1}); convert the file, as with iconv"
            ) from error
        yield text.removesuffix("\n").removesuffix("\r")


def answers(run: TrainedRun, predictor: Predictor, texts: Iterable[str], at_once: int) -> Iterator[str]:
    """A line for each text, class and probability, in their order; `at_once` texts go through the network together."""
    texts = iter(texts)
    while block := list(itertools.islice(texts, at_once)):
        for row in predictor.probabilities(block):
            best = int(row.argmax())
            yield f"{run.class_names[best]}\t{row[best]:.4f}\n"


def predict(run: TrainedRun, device: str, threads: int, lines: BinaryIO, out: TextIO) -> None:
    """Write an answer for each line. A person who types gets each at once."""
    predictor = Predictor(run, device, threads)
    name = "standard input" if lines is sys.stdin.buffer else lines.name
    typed = os.isatty(lines.fileno())
    at_once = 1 if typed else evaluation_batch_size(run.architecture)
    for answer in answers(run, predictor, texts_of(lines, name), at_once):
        out.write(answer)
        if typed:
            out.flush()
