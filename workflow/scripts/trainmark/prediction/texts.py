"""Labels texts with a trained run. Tokenization and length are the same as in its training."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, TextIO

import numpy as np

from trainmark.datasets import prepared
from trainmark.datasets.images.parallel import chunks
from trainmark.errors import DataError
from trainmark.frameworks.adapter import evaluation_batch_size
from trainmark.prediction.predict import Model, Predictor, read_model, training_of
from trainmark.prediction.trained_run import TrainedRun

MAX_TEXT_BYTES = 1 << 20
"""Maximum length of a line. The longest of IMDB's 50,000 reviews is shorter than 14 KiB."""


def read_text_model(run: TrainedRun) -> Model:
    """Read the trained weights and the vocabulary of a run.

    Raises RecordError or DataError if the weights or the dataset are not those of the record.
    """
    training = training_of(run)
    vocabulary = prepared.read_vocabulary(run.dataset_folder)
    if vocabulary is None:
        raise DataError(
            f"{run.dataset_folder} has no vocabulary, because {run.record['dataset']['name']} comes as token ids; "
            "choose a run that was trained on raw reviews, such as imdb"
        )
    (length,) = training.input_shape

    def encode(texts: Sequence[str]) -> np.ndarray:
        return np.stack([vocabulary.encode(text, length) for text in texts])

    return read_model(run, training, encode)


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


def answers(predictor: Predictor, texts: Iterable[str], batch_size: int) -> Iterator[str]:
    """Yield a line with classes and probabilities for each text, in their order."""
    for block in chunks(texts, batch_size):
        yield from (f"{labels}\n" for labels in predictor.labels(block))


def label_texts(predictor: Predictor, lines: BinaryIO, out: TextIO) -> None:
    """Write a line with classes and probabilities for each line of text; at once for each line typed at a terminal."""
    name = "standard input" if lines is sys.stdin.buffer else lines.name
    is_typed = os.isatty(lines.fileno())
    batch_size = 1 if is_typed else evaluation_batch_size(predictor.model.training.architecture)
    for answer in answers(predictor, texts_of(lines, name), batch_size):
        out.write(answer)
        if is_typed:
            out.flush()
