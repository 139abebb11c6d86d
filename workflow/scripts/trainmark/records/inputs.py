"""What a run was made of, as its record keeps it: one digest over the recipe, settings, data and code."""

import json
from collections.abc import Mapping
from pathlib import Path

from trainmark.files.checksums import sha256_of
from trainmark.files.seal import digest_of


def inputs_of(recipe: Mapping, settings: Mapping, dataset: Mapping, mean_file: Path | None, code: Mapping) -> dict:
    """The record's part on its inputs: recipe, SHA-256 of the mean image (None for texts), and the digest of all.

    recipe: what it decides (`recipe_values`). settings, dataset, code: as the record keeps them.
    """
    inputs = {"recipe": json.loads(json.dumps(recipe)), "mean_sha256": sha256_of(mean_file) if mean_file else None}
    return {**inputs, "sha256": digest_of_inputs(inputs, settings, dataset, code)}


def are_those_of(record: Mapping) -> bool:
    """Whether the digest of a record's inputs is that of what it says of them."""
    inputs, code = record["inputs"], record["provenance"]["code"]
    found: str = inputs["sha256"]
    return found == digest_of_inputs(inputs, record["settings"], record["dataset"], code)


def digest_of_inputs(inputs: Mapping, settings: Mapping, dataset: Mapping, code: Mapping) -> str:
    """The digest of recipe and mean image with settings, dataset and code, as the record keeps them."""
    asked = {key: inputs[key] for key in ("recipe", "mean_sha256")}
    return digest_of({"inputs": asked, "settings": settings, "dataset": dataset, "code": code["sha256"]})
