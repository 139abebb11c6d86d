"""The inputs of a run in its record: the recipe, and one digest of recipe, settings, data and code."""

import json
from collections.abc import Mapping
from pathlib import Path

from trainmark.errors import DataError, why
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import digest_of

FILES = ("mean_sha256", "initial_weights_sha256")
"""Keys of `inputs` with the SHA-256 of a file."""


def inputs_of(
    recipe: Mapping,
    settings: Mapping,
    dataset: Mapping,
    mean_file: Path | None,
    initial_weights_file: Path | None,
    code: Mapping,
) -> dict:
    """Return `inputs` of a record: the recipe, the SHA-256 of the files and the digest.

    recipe: the recipe's values (`recipe_values`).
    settings, dataset, code: as in the record.
    mean_file: the mean image; None for texts.
    initial_weights_file: the file from which the run starts; None for drawn weights.

    Raises DataError if the file of initial weights can't be read.
    """
    inputs = {
        "recipe": json.loads(json.dumps(recipe)),
        "mean_sha256": sha256_of(mean_file) if mean_file else None,
        "initial_weights_sha256": initial_weights_sha256(initial_weights_file),
    }
    return {**inputs, "sha256": digest_of_inputs(inputs, settings, dataset, code)}


def initial_weights_sha256(file: Path | None) -> str | None:
    """Return the SHA-256 of the file from which a run starts, or None. Raises DataError if it can't be read."""
    try:
        return sha256_of(file) if file else None
    except OSError as error:
        raise DataError(
            f"initial_weights: {file} can't be read {why(error, 'restore it')}, or change initial_weights"
        ) from error


def digest_of_inputs(inputs: Mapping, settings: Mapping, dataset: Mapping, code: Mapping) -> str:
    """Return the SHA-256 of recipe, files, settings, dataset and code, all as in the record."""
    hashed_inputs = {key: inputs[key] for key in ("recipe", *FILES)}
    return digest_of({"inputs": hashed_inputs, "settings": settings, "dataset": dataset, "code": code["sha256"]})
