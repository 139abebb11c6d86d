"""Classes of texts by the network of a trained run: the same words, ids and length as in its training."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError
from trainmark.frameworks.adapter import Adapter, evaluation_batch_size
from trainmark.frameworks.registry import create_adapter
from trainmark.networks.graph import Architecture
from trainmark.prediction.text_run import TextRun, find_run
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.outputs import probabilities
from trainmark.recipes.recipe import Recipe
from trainmark.training.kept_weights import read_weights

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
    """A run by its record, or by the folder that holds it, and what its files hold.

    Raises what `text_runs.find_run` raises, and RecordError or DataError where weights or dataset are not the record's.
    """
    found = find_run(path, dataset_folder)
    manifest, vocabulary = _dataset(found)
    (length,) = manifest["sample_shape"]
    architecture = found.recipe.architecture((length,), manifest["classes"])
    return TrainedRun(
        found.record["run"]["framework"],
        found.record["settings"]["dtype"],
        found.recipe,
        architecture,
        read_weights(found.file, found.record, architecture),
        vocabulary,
        length,
        manifest["class_names"],
    )


def _dataset(found: TextRun) -> tuple[dict, Vocabulary]:
    """(manifest, vocabulary) of the prepared dataset that a run was trained on."""
    name, folder = found.record["dataset"]["name"], found.dataset_folder
    manifest = prepared.read_manifest(folder)
    if manifest["content_sha256"] != found.record["dataset"]["content_sha256"]:
        raise DataError(
            f"{folder} holds another dataset, or another version of {name}, than {found.file} was trained on; name the "
            "right one with --dataset-folder, or train the run again"
        )
    vocabulary = prepared.read_vocabulary(folder)
    if vocabulary is None:
        raise DataError(
            f"{folder} keeps no vocabulary, since {name} was encoded elsewhere: its words are not known; take a run "
            "that was trained on raw reviews, as those of imdb are"
        )
    return manifest, vocabulary


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


def texts_of(lines: BinaryIO, name: str) -> Iterator[str]:
    """The text of each line, without its end. An empty line is a text without words, as some reviews are.

    Raises DataError where a line is not UTF-8, or is longer than MAX_TEXT_BYTES.
    """
    for number in itertools.count(1):
        line = lines.readline(MAX_TEXT_BYTES + len(b"\r\n"))  # not without bound: a line may have no end
        if not line:
            return
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_TEXT_BYTES:
            raise DataError(f"{name}, line {number}: it has more than {MAX_TEXT_BYTES} bytes; write one review a line")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: it is not UTF-8 text (byte {error.start + 1}); convert the file, as with iconv"
            ) from error
        yield text


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
