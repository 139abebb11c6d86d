"""Labels photographs with a trained run. They are decoded, cropped and scaled as the test images of its training."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.datasets.images.decoding import UnreadableImage, load_stored
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.frameworks.adapter import evaluation_batch_size
from trainmark.prediction.predict import Model, Predictor, read_model, training_of
from trainmark.prediction.trained_run import TrainedRun, photographs_in
from trainmark.recipes import input_transform
from trainmark.recipes.recipe import InputTransform

MOST_AT_ONCE = 64
"""Maximum number of photographs that go through the network together; they take 12 MiB as they are stored."""

ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
"""Characters of a path that would break its line, and what is written for them."""


def read_photograph_model(run: TrainedRun) -> Model:
    """Read the trained weights and the mean image of a run.

    Raises RecordError or DataError if the weights, the dataset or its mean image are not those of the record, or if the
    run was trained on images of another size than decoded photographs have.
    """
    training = training_of(run)
    shape, transform = tuple(training.manifest["sample_shape"]), training.transform
    if shape != (3, STORED_SIDE, STORED_SIDE):
        raise DataError(
            f"{run.file} was trained on images of {' x '.join(map(str, shape))}, and photographs are decoded to "
            f"3 x {STORED_SIDE} x {STORED_SIDE}; choose a run that was trained on image files"
        )
    assert transform is not None  # only recipes on texts have none
    mean, dtype = _mean_image(run, transform), run.record["network"]["dtype"]

    def encode(images: Sequence[np.ndarray]) -> np.ndarray:
        return input_transform.network_inputs(np.stack(images).transpose(0, 3, 1, 2), mean, transform, dtype)

    return read_model(run, training, encode)


def _mean_image(run: TrainedRun, transform: InputTransform) -> np.ndarray | None:
    """Return the mean image of the run's dataset, or None if the run does not subtract it."""
    if not transform.subtract_mean:
        return None
    file = run.dataset_folder.parent / "mean.npy"
    if not file.is_file():
        raise DataError(f"{file}, the mean image of the dataset, is missing; run snakemake again, which makes it")
    if sha256_of(file) != run.record["inputs"]["mean_sha256"]:
        raise DataError(
            f"{file} is damaged, or not the mean image that {run.file} was trained with: its SHA-256 is not the "
            "record's; delete it and run snakemake again"
        )
    mean: np.ndarray = np.load(file, allow_pickle=False)
    return mean


def label_photographs(predictor: Predictor, paths: Sequence[Path], threads: int, out: TextIO, errors: TextIO) -> int:
    """Write "<path><TAB><class><TAB><its probability>" for each photograph; return how many could not be read.

    paths: image files, and folders (see `photographs_in`). threads: number of threads that decode.
    errors: receives a line for each that can't be read.
    """
    unreadable = 0

    def readable() -> Iterator[tuple[Path, np.ndarray]]:
        nonlocal unreadable
        for path, found in in_order(_decode, photographs_in(paths), threads):
            if isinstance(found, str):
                unreadable += 1
                print(f"{_written(path)}: {found}; it is not labelled", file=errors, flush=True)
            else:
                yield path, found

    batch_size = min(MOST_AT_ONCE, evaluation_batch_size(predictor.model.training.architecture))
    for batch in chunks(readable(), batch_size):
        labels = predictor.labels([image for _, image in batch])
        out.writelines(f"{_written(path)}\t{label}\n" for (path, _), label in zip(batch, labels, strict=True))
        out.flush()
    return unreadable


def _decode(given: tuple[Path, str | None]) -> tuple[Path, np.ndarray | str]:
    """Return a path with its image, or with the reason why there is none."""
    path, reason = given
    try:
        return path, reason or load_stored(path)
    except UnreadableImage as error:
        return path, str(error)


def _written(path: Path) -> str:
    return str(path).translate(ESCAPES)
