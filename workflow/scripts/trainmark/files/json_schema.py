"""Checking our own JSON files against their schemas."""

import json
from functools import cache
from pathlib import Path

import jsonschema

MESSAGE_LENGTH = 200
"""Most characters of what JSON Schema says: it may quote a whole document."""


@cache
def _validator(schema_file: Path) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(schema_file.read_text()))


def violation(document: object, schema_file: Path) -> str | None:
    """Where a document breaks its schema first, and how: "run.epochs: 0 is less than ..."; None where it does not."""
    error = jsonschema.exceptions.best_match(_validator(schema_file).iter_errors(document))
    if error is None:
        return None
    where = ".".join(str(part) for part in error.absolute_path) or "top level"
    message = error.message
    return f"{where}: {message if len(message) <= MESSAGE_LENGTH else f'{message[: MESSAGE_LENGTH - 3]}...'}"
