"""trainmark's own JSON files: checked against a schema on write and on read, and against their SHA-256 on read."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jsonschema

from trainmark.errors import TrainmarkError
from trainmark.files.seal import is_sealed, sealed
from trainmark.files.whole import write_text

MESSAGE_LENGTH = 200
"""Longest validation message shown, in characters: jsonschema may quote a whole document."""


@cache
def _validator(schema_file: Path) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(schema_file.read_text()))


def violation(document: object, schema_file: Path) -> str | None:
    """Describe the most relevant schema error of a document: "run.epochs: 0 is less than ..."; None if it is valid."""
    error = jsonschema.exceptions.best_match(_validator(schema_file).iter_errors(document))
    if error is None:
        return None
    where = ".".join(str(part) for part in error.absolute_path) or "top level"
    message = error.message
    return f"{where}: {message if len(message) <= MESSAGE_LENGTH else f'{message[: MESSAGE_LENGTH - 3]}...'}"


@dataclass(frozen=True)
class JsonFiles:
    """Reads and writes the files of one schema.

    name: what a file is called in messages.
    schema_file: the JSON schema.
    error: the exception class to raise.
    again: how a user gets a new file; ends every message about a bad one.
    """

    name: str
    schema_file: Path
    error: type[TrainmarkError]
    again: str

    def write(self, document: dict, path: Path) -> None:
        """Add a document's SHA-256 and write it to a file, atomically. Raises `error` if it does not fit the schema."""
        write_text(path, self._text(sealed(document), path))

    def read(self, path: Path) -> dict:
        """Read a file. Raises `error` if it is missing, is no JSON, does not fit the schema, or was changed."""
        try:
            document: dict = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise self.error(f"{path}: there is no such {self.name}") from error
        except OSError as error:
            raise self.error(f"{path}: can't be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise self.error(f"{path} is not a JSON file: {error}; {self.again}") from error
        self._text(document, path)
        if not is_sealed(document):
            raise self.error(
                f"{path} was changed after it was written: its content does not match its SHA-256; {self.again}"
            )
        return document

    def _text(self, document: dict, path: Path) -> str:
        """The JSON text of a document. Rejects NaN and Infinity, which are not JSON but pass Python's json module."""
        broken = violation(document, self.schema_file)
        try:
            text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        except ValueError:
            broken = broken or "it holds NaN or Infinity as a number"
        if broken:
            raise self.error(f"{path} is not a {self.name} of this version of trainmark: {broken}; {self.again}")
        return text
