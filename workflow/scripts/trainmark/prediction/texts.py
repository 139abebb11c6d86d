"""Labels texts with a trained run. Tokenization and length are the same as in its training."""

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TextIO

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.images.parallel import chunks
from trainmark.errors import DataError
from trainmark.frameworks.adapter import Adapter, evaluation_batch_size
from trainmark.frameworks.registry import create_adapter
from trainmark.prediction.trained_run import TrainedRun
from trainmark.recipes.outputs import probabilities
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.training.kept_weights import read_weights

MAX_TEXT_BYTES = 1 << 20
"""Maximum length of a line. The longest of IMDB's 50,000 reviews is shorter than 14 KiB."""


class Predictor:
    """The network of a trained run, built by the adapter of its framework.

    Raises RecordError or DataError if the weights or the dataset are not those of the record, and DeviceError if the
    framework or a GPU is missing.
    """

    def __init__(self, run: TrainedRun, device: str, threads: int) -> None:
        folder, record = run.dataset_folder, run.record
        manifest, vocabulary = prepared.read_manifest(folder), prepared.read_vocabulary(folder)
        if manifest["content_sha256"] != record["dataset"]["content_sha256"]:
            raise DataError(
                f"{folder} holds another dataset, or another version of {record['dataset']['name']}, than {run.file} "
                "was trained on; name the right one with --dataset-folder, or train the run again"
            )
        if vocabulary is None:
            raise DataError(
                f"{folder} has no vocabulary, because {record['dataset']['name']} comes as token ids; choose a run "
                "that was trained on raw reviews, such as imdb"
            )
        training = ResolvedTraining(run.recipe, record["settings"], manifest)
        self.batch_size = evaluation_batch_size(training.architecture)
        self._vocabulary, self._class_names = vocabulary, manifest["class_names"]
        (self._length,) = training.input_shape
        self._adapter: Adapter = create_adapter(record["run"]["framework"], threads)
        self._adapter.build(
            architecture=training.architecture,
            weights=read_weights(run.file, record, training.architecture),
            optimizer=run.recipe.optimizer,
            device=device,
            dtype=record["network"]["dtype"],
        )
        self._adapter.check_device(device)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probability of each class, float64 (texts, classes)."""
        ids = np.stack([self._vocabulary.encode(text, self._length) for text in texts])
        self._adapter.load(split="test", inputs=ids, labels=np.zeros(len(ids), np.int64))
        return probabilities(self._adapter.predict("test"))

    def labels(self, texts: Sequence[str]) -> list[str]:
        """Return "<class><TAB><its probability>" for each text: of equal ones, the class with the lower label."""
        return [f"{self._class_names[row.argmax()]}\t{row.max():.4f}" for row in self.probabilities(texts)]


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


def label_texts(predictor: Predictor, lines: BinaryIO, out: TextIO) -> None:
    """Write a line with class and probability for each line of text; at once for each line typed at a terminal."""
    name = "standard input" if lines is sys.stdin.buffer else lines.name
    is_typed = os.isatty(lines.fileno())
    for texts in chunks(texts_of(lines, name), 1 if is_typed else predictor.batch_size):
        out.writelines(f"{label}\n" for label in predictor.labels(texts))
        if is_typed:
            out.flush()
