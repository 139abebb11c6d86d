"""The record: the JSON file that one run leaves. Checked against its schema on write and on read."""

import json
import math
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import violation
from trainmark.files.whole import written_whole

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

SCHEMA_VERSION = 4

SCHEMA_FILE = Path(__file__).with_name("record.schema.json")


def encode_loss(loss: float) -> float | str:
    """A loss as JSON can hold it: the number, or "NaN", "Infinity", "-Infinity"."""
    if math.isnan(loss):
        return "NaN"
    return loss if math.isfinite(loss) else ("Infinity" if loss > 0 else "-Infinity")


def decode_loss(value: float | str | None) -> float | None:
    """The loss that `encode_loss` wrote, as a float."""
    return float(value) if isinstance(value, str) else value


def _check(record: dict, path: Path) -> None:
    if found := violation(record, SCHEMA_FILE):
        raise RecordError(
            f"{path} is not a record of this version of trainmark: {found}; delete it, "
            "and snakemake trains the run again"
        )


def _as_json(record: dict, path: Path) -> str:
    """The text of a record. Python's json would write NaN and Infinity, and reads them: both are no JSON."""
    try:
        return json.dumps(record, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise RecordError(
            f"{path} is not a record of this version of trainmark: it holds NaN or Infinity as a number; delete it, "
            "and snakemake trains the run again"
        ) from error


def write_record(record: dict, path: Path) -> None:
    """Write a record as a whole or not at all, whatever happens. Raises RecordError where it doesn't fit the schema."""
    _check(record, path)
    text = _as_json(record, path)
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def read_record(path: Path) -> dict:
    """Read a record. Raises RecordError where it is not JSON or does not fit the schema."""
    try:
        record: dict = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordError(f"{path}: there is no such record") from error
    except OSError as error:
        raise RecordError(f"{path}: can't be read ({error.strerror})") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RecordError(f"{path} is not a JSON file: {error}") from error
    _check(record, path)
    _as_json(record, path)
    return record
