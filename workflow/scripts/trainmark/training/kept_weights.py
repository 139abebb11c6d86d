"""The trained weights of a run: an .npz file beside its record, which holds the file's SHA-256.

Besides the arrays of the network, whose names have a dot ("dense1.kernel"), the file holds what was trained: `classes`
(the names of the classes in the order of the labels), `recipe` and `dataset`. So it can be read without the record.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from trainmark.errors import RecordError
from trainmark.files.checksums import sha256_of
from trainmark.files.disk import write_arrays
from trainmark.files.whole import part_of, written_whole
from trainmark.networks.graph import Architecture
from trainmark.recipes.initial_weights import Weights, read_arrays
from trainmark.records.evaluation import REMOVED_FILE
from trainmark.training.audited_epoch import FILE_NAME as AUDIT_FILE

FILE_NAME = "weights.npz"


def write_weights(file: Path, weights: Weights, trained: Mapping[str, ArrayLike], audit: Mapping | None = None) -> dict:
    """Write the arrays by name, in float32, and return the record's entry: name, SHA-256 and audit.

    trained: what was trained: classes, recipe and dataset. audit: see `AuditedEpoch.kept`.

    Raises OSError, and leaves no partial file, where they can't be written.
    """
    with written_whole(file) as part:
        write_arrays(part, {**trained, **{name: np.asarray(array, np.float32) for name, array in weights.items()}})
        sha256 = sha256_of(part)
    return {"file": file.name, "sha256": sha256, "audit": audit}


def remove_weights(file: Path) -> None:
    """Remove the weights of an earlier run, a partial file, and the evaluation of weights that were removed."""
    for path in (file, part_of(file), file.with_name(REMOVED_FILE)):
        path.unlink(missing_ok=True)


def remove_arrays(file: Path) -> None:
    """Remove the weights of a run and its audited epoch."""
    for path in (file, part_of(file.with_name(AUDIT_FILE)), file.with_name(AUDIT_FILE)):
        path.unlink(missing_ok=True)


def read_weights(record_file: Path, record: Mapping, architecture: Architecture) -> Weights:
    """Read the weights that a record names. Raises RecordError where the file is missing or holds other ones."""
    file = record_file.with_name(record["weights"]["file"])
    if not file.is_file():
        raise RecordError(f"{file}, the trained weights of the run, is missing; {_train_again(record_file)}")
    if sha256_of(file) != record["weights"]["sha256"]:
        raise RecordError(
            f"{file} is damaged or of another run: its SHA-256 is not the record's; {_train_again(record_file)}"
        )
    try:
        weights = read_arrays(file)
    except ValueError as error:
        raise RecordError(f"{file} holds no arrays of numbers ({error}); {_train_again(record_file)}") from error
    shapes = {parameter.name: tuple(parameter.shape) for parameter in architecture.arrays()}
    if {name: array.shape for name, array in weights.items()} != shapes:
        raise RecordError(f"{file} is of another network than today's {architecture.name}; {_train_again(record_file)}")
    return weights


def _train_again(record_file: Path) -> str:
    return f"delete {record_file} and run snakemake again"
