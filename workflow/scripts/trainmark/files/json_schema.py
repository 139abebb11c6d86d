"""Our own JSON files: checked against their schemas, on write and on read, and on read against their digests."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jsonschema

from trainmark.errors import TrainmarkError
from trainmark.files.seal import is_sealed, sealed
from trainmark.files.whole import write_text

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


@dataclass(frozen=True)
class JsonFiles:
    """Files of one schema. name: what one is called. error: what is raised. again: how a person comes by another."""

    name: str
    schema_file: Path
    error: type[TrainmarkError]
    again: str

    def write(self, document: dict, path: Path) -> None:
        """Write a file, with its digest, as a whole or not at all. Raises `error` where it does not fit the schema."""
        write_text(path, self._text(sealed(document), path))

    def read(self, path: Path) -> dict:
        """Read a file. Raises `error` where it is not there, no JSON, does not fit the schema, or was changed."""
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
                f"{path} was changed after it was written: its SHA-256 is not that of its content; {self.again}"
            )
        return document

    def _text(self, document: dict, path: Path) -> str:
        """The text of a document. Python's json would write NaN and Infinity, and reads them: both are no JSON."""
        broken = violation(document, self.schema_file)
        try:
            text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        except ValueError:
            broken = broken or "it holds NaN or Infinity as a number"
        if broken:
            raise self.error(f"{path} is not a {self.name} of this version of trainmark: {broken}; {self.again}")
        return text
