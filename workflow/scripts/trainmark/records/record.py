"""The record: the JSON file with the result of one run.

It is checked against its schema on write and on read, and on read also against its digest and for contradictions.
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
    "peak",
    "other",
)
"""All phases; record.schema.json describes each. "other" is the time between the other phases."""

SCHEMA_VERSION = 16

SCHEMA_FILE = Path(__file__).with_name("record.schema.json")


def encode_loss(loss: float) -> float | str:
    """Encode a loss for JSON, which has no NaN: the number itself, or "NaN", "Infinity", "-Infinity"."""
    if math.isnan(loss):
        return "NaN"
    return loss if math.isfinite(loss) else ("Infinity" if loss > 0 else "-Infinity")


def decode_loss(value: float | str | None) -> float | None:
    """Decode a loss that `encode_loss` encoded. None stays None."""
    return float(value) if isinstance(value, str) else value


AGAIN = "delete it, and snakemake trains the run again"

_FILES = JsonFiles("record", SCHEMA_FILE, RecordError, AGAIN)


write_record = _FILES.write


def read_record(path: Path) -> dict:
    """Read a record. Raises RecordError if it is missing, not a valid record, edited, or contradicts itself."""
    record = _FILES.read(path)
    if contradiction := next(contradictions(record), None):
        raise RecordError(f"{path} contradicts itself: {contradiction}; {AGAIN}")
    return record
