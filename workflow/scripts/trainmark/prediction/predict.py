"""Classifies texts with the network of a trained run. Tokenization and length are the same as in its training."""

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
"""Maximum length of a line. The longest of IMDB's 50,000 reviews is shorter than 14 KiB."""


@dataclass(frozen=True)
class TrainedRun:
    """A trained run on texts.

    framework, dtype: as in its record.
    recipe, architecture: what it trained.
    weights: its trained weights.
    vocabulary: turns a text into token ids, as in its training.
    length: number of token ids per text.
    class_names: by label.
    """

    framework: str
    dtype: str
    recipe: Recipe
    architecture: Architecture
    weights: Weights
    vocabulary: Vocabulary
    length: int
    class_names: list[str]


def read_run(path: Path, dataset_folder: Path | None = None) -> TrainedRun:
    """Read a run with its trained weights and its vocabulary.

    path: the run's record, or the folder that holds it.
    dataset_folder: as in `text_run.find_run`.

    Raises the errors of `text_run.find_run`. Raises RecordError or DataError if the weights or the dataset are not
    those of the record.
    """
    text_run = find_run(path, dataset_folder)
    manifest, vocabulary = _read_dataset(text_run)
    (length,) = manifest["sample_shape"]
    architecture = text_run.recipe.architecture((length,), manifest["classes"])
    return TrainedRun(
        text_run.record["run"]["framework"],
        text_run.record["settings"]["dtype"],
        text_run.recipe,
        architecture,
        read_weights(text_run.file, text_run.record, architecture),
        vocabulary,
        length,
        manifest["class_names"],
    )


def _read_dataset(text_run: TextRun) -> tuple[dict, Vocabulary]:
    """Return (manifest, vocabulary) of the prepared dataset that the run was trained on."""
    name, folder = text_run.record["dataset"]["name"], text_run.dataset_folder
    manifest = prepared.read_manifest(folder)
    if manifest["content_sha256"] != text_run.record["dataset"]["content_sha256"]:
        raise DataError(
            f"{folder} holds another dataset, or another version of {name}, than {text_run.file} was trained on; name "
            "the right one with --dataset-folder, or train the run again"
        )
    vocabulary = prepared.read_vocabulary(folder)
    if vocabulary is None:
        raise DataError(
            f"{folder} has no vocabulary, because {name} comes as token ids; choose a run that was trained on raw "
            "reviews, such as imdb"
        )
    return manifest, vocabulary


class Predictor:
    """The network of a run, built by the adapter of its framework. Raises DeviceError if that or a GPU is missing."""

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
        self._adapter.check_device(device)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probability of each class, float64 (texts, classes)."""
        ids = np.stack([self._run.vocabulary.encode(text, self._run.length) for text in texts])
        self._adapter.load(split="test", inputs=ids, labels=np.zeros(len(texts), np.int64))
        return probabilities(self._adapter.predict("test"))


def texts_of(lines: BinaryIO, name: str) -> Iterator[str]:
    """Yield the text of each line without its line end. An empty line is an empty text.

    name: name of the stream, for messages.

    Raises DataError if a line is not UTF-8 or is longer than MAX_TEXT_BYTES.
    """
    for number in itertools.count(1):
        line = lines.readline(MAX_TEXT_BYTES + len(b"\r\n"))  # bounded, because a line may never end
        if not line:
            return
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_TEXT_BYTES:
            raise DataError(f"{name}, line {number}: more than {MAX_TEXT_BYTES} bytes; write one review per line")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: not UTF-8 text (byte {error.start + 1}); convert it, for example with iconv"
            ) from error
        yield text


def answers(run: TrainedRun, predictor: Predictor, texts: Iterable[str], batch_size: int) -> Iterator[str]:
    """Yield a line with class and probability for each text, in their order.

    batch_size: number of texts that go through the network together.
    """
    texts = iter(texts)
    while block := list(itertools.islice(texts, batch_size)):
        for row in predictor.probabilities(block):
            best = int(row.argmax())
            yield f"{run.class_names[best]}\t{row[best]:.4f}\n"


def predict(run: TrainedRun, device: str, threads: int, lines: BinaryIO, out: TextIO) -> None:
    """Write a line with class and probability for each line of text; at once for each line typed at a terminal."""
    predictor = Predictor(run, device, threads)
    name = "standard input" if lines is sys.stdin.buffer else lines.name
    is_typed = os.isatty(lines.fileno())
    batch_size = 1 if is_typed else evaluation_batch_size(run.architecture)
    for answer in answers(run, predictor, texts_of(lines, name), batch_size):
        out.write(answer)
        if is_typed:
            out.flush()
