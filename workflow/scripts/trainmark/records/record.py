"""The record: the JSON file that one run leaves.

Checked against its schema on write and on read, and on read against the digest that it carries and against itself.
"""

import math
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles
from trainmark.records.consistency import contradictions

PHASES = (
    "start",
    "device_wait",
    "import",
    "data_load",
    "build",
    "transfer",
    "compilation",
    "warm_up",
    "steady",
    "evaluation",
    "checkpoint",
    "other",
)
"""Every phase there is; record.schema.json says what each means. "other" is what lies between the others."""

SCHEMA_VERSION = 6

SCHEMA_FILE = Path(__file__).with_name("record.schema.json")


def encode_loss(loss: float) -> float | str:
    """A loss as JSON can hold it: the number, or "NaN", "Infinity", "-Infinity"."""
    if math.isnan(loss):
        return "NaN"
    return loss if math.isfinite(loss) else ("Infinity" if loss > 0 else "-Infinity")


def decode_loss(value: float | str | None) -> float | None:
    """The loss that `encode_loss` wrote, as a float."""
    return float(value) if isinstance(value, str) else value


AGAIN = "delete it, and snakemake trains the run again"

_FILES = JsonFiles("record", SCHEMA_FILE, RecordError, AGAIN)


def write_record(record: dict, path: Path) -> None:
    """Write a record as a whole or not at all, whatever happens. Raises RecordError where it doesn't fit the schema."""
    _FILES.write(record, path)


def read_record(path: Path) -> dict:
    """Read a record. Raises RecordError where it is none, was changed, or contradicts itself."""
    record = _FILES.read(path)
    if wrong := next(contradictions(record), None):
        raise RecordError(f"{path} contradicts itself: {wrong}; {AGAIN}")
    return record
