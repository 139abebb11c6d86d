"""trainmark's own JSON files: checked against a schema on write and on read, and against their SHA-256 on read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.errors import TrainmarkError, why
from trainmark.files.seal import is_sealed, sealed
from trainmark.files.whole import write_text
from trainmark.trainer import is_written

MESSAGE_LENGTH = 200
"""Longest message about a wrong document, in characters: it may hold a list of many choices."""

TRAINER = "trainer"
"""The `format` of a text in a schema that is a written trainer."""


@cache
def _compiled(schema_file: Path) -> Callable[[object], object]:
    """Return a check of documents read from JSON, which raises JsonSchemaValueException."""
    import fastjsonschema  # here because a training starts without it

    schema = json.loads(schema_file.read_text())
    whole = _without_references(schema, schema.get("$defs", {}))
    check: Callable = fastjsonschema.compile(whole, formats={TRAINER: is_written}, use_default=False)
    return check


def _without_references(part: Any, definitions: Mapping) -> Any:
    """Put definitions in the places of the references to them, for which fastjsonschema would write slow code."""
    if isinstance(part, dict):
        part = definitions[part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else part
        return {key: _without_references(value, definitions) for key, value in part.items()}
    return [_without_references(item, definitions) for item in part] if isinstance(part, list) else part


def violation(document: object, schema_file: Path) -> str | None:
    """Describe the first schema error of a document: "run.epochs must be integer"; None if it is valid."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _compiled(schema_file)(document)
    except JsonSchemaValueException as error:
        place = str(error.name).removeprefix("data").removeprefix(".") or "top level"
        message: str = error.message.replace(str(error.name), place, 1).replace("same as const definition: ", "")
        return message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 3]}..."
    return None


def _not_json(document: object) -> str | None:
    """Describe a NaN or Infinity in a document, which are not JSON but pass Python's json module; None without one."""
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return "it holds NaN or Infinity as a number"
    return None


@dataclass(frozen=True)
class JsonFiles:
    """Reads and writes the files of one schema.

    name: what a file is called in messages.
    error: the exception class to raise.
    again: how a user gets a new file; ends every message about a bad one.
    """

    name: str
    schema_file: Path
    error: type[TrainmarkError]
    again: str

    def write(self, document: dict, path: Path) -> None:
        """Add a document's SHA-256 and write it to a file, atomically. Raises `error` if it does not fit the schema."""
        document = sealed(document)
        self._refuse(violation(document, self.schema_file) or _not_json(document), path)
        write_text(path, json.dumps(document, indent=1) + "\n")

    def read(self, path: Path) -> dict:
        """Read a file. Raises `error` if it is missing, is no JSON, does not fit the schema, or was changed."""
        try:
            document: dict = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise self.error(f"{path}: there is no such {self.name}") from error
        except OSError as error:
            raise self.error(f"{path}: can't be read {why(error)}") from error
        except (ValueError, RecursionError) as error:
            raise self.error(f"{path} is not a JSON file: {error}; {self.again}") from error
        self._refuse(violation(document, self.schema_file) or _not_json(document), path)
        if not is_sealed(document):
            raise self.error(
                f"{path} was changed after it was written: its content does not match its SHA-256; {self.again}"
            )
        return document

    def _refuse(self, broken: str | None, path: Path) -> None:
        """Raise `error` if something is wrong with a document. broken: what; None if it is valid."""
        if broken:
            raise self.error(f"{path} is not a {self.name} of this version of trainmark: {broken}; {self.again}")
