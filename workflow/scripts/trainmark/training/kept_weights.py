"""The trained weights of a run, kept beside its record: an .npz file that is trusted by the record's SHA-256 alone."""

import zipfile
from pathlib import Path

import numpy as np

from trainmark.errors import RecordError
from trainmark.files.checksums import sha256_of
from trainmark.files.disk import write_arrays
from trainmark.files.whole import part_of, written_whole
from trainmark.networks.graph import Architecture
from trainmark.recipes.initial_weights import Weights

FILE_NAME = "weights.npz"


def write_weights(file: Path, weights: Weights) -> dict:
    """Write the arrays by their names, in float32, as a whole or not at all; return the record's part on them.

    Raises OSError, and leaves no part behind, where they can't be written.
    """
    with written_whole(file) as part:
        write_arrays(part, {name: np.asarray(array, np.float32) for name, array in weights.items()})
        sha256 = sha256_of(part)
    return {"file": file.name, "sha256": sha256}


def remove_weights(file: Path) -> None:
    """Remove what an earlier run left, or a part of it."""
    for path in (file, part_of(file)):
        path.unlink(missing_ok=True)


def read_weights(record_file: Path, record: dict, architecture: Architecture) -> Weights:
    """The trained weights of a run whose record names some. Raises RecordError where they are not those it names."""
    kept = record["weights"]
    file = record_file.with_name(kept["file"])
    if not file.is_file():
        raise RecordError(f"{file}, the trained weights of the run, is missing; {_again(record_file)}")
    if sha256_of(file) != kept["sha256"]:
        raise RecordError(
            f"{file} is damaged or of another run: its SHA-256 is not the record's; {_again(record_file)}"
        )
    try:
        with np.load(file, allow_pickle=False) as arrays:
            weights = {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RecordError(f"{file} holds no arrays of numbers ({error}); {_again(record_file)}") from error
    wanted = {parameter.name: tuple(parameter.shape) for parameter in architecture.arrays()}
    if {name: array.shape for name, array in weights.items()} != wanted:
        raise RecordError(f"{file} is of another network than today's {architecture.name}; {_again(record_file)}")
    return weights


def _again(record_file: Path) -> str:
    return f"delete {record_file} and run snakemake again"
