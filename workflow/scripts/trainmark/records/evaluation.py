"""The cross-evaluation: the JSON file of what one trainer made of the kept weights of another's runs."""

from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("evaluation.schema.json")

_FILES = JsonFiles("cross-evaluation", SCHEMA_FILE, RecordError, "delete it, and snakemake evaluates again")


def write_evaluation(evaluation: dict, path: Path) -> None:
    """Write a cross-evaluation as a whole or not at all. Raises RecordError where it doesn't fit the schema."""
    _FILES.write(evaluation, path)


def read_evaluation(path: Path) -> dict:
    """Read a cross-evaluation. Raises RecordError where it is not there, no JSON, or does not fit the schema."""
    return _FILES.read(path)
