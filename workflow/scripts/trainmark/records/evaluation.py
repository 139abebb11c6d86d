"""Cross-evaluations: JSON files with one trainer's evaluation of the trained weights of another trainer's runs."""

from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("evaluation.schema.json")

_FILES = JsonFiles("cross-evaluation", SCHEMA_FILE, RecordError, "delete it, and snakemake evaluates again")


def write_evaluation(evaluation: dict, path: Path) -> None:
    """Write a cross-evaluation atomically. Raises RecordError if it does not fit the schema."""
    _FILES.write(evaluation, path)


def read_evaluation(path: Path) -> dict:
    """Read a cross-evaluation. Raises RecordError if it is missing, not JSON, edited, or does not fit the schema."""
    return _FILES.read(path)
