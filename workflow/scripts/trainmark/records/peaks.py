"""Measured peaks that runs share: one JSON file for each set of conditions, in results/peaks."""

import json
from collections.abc import Mapping
from pathlib import Path

from trainmark.errors import DataError, expect_damage
from trainmark.files.seal import digest_of, is_sealed, sealed
from trainmark.files.whole import write_text


def peak_file(folder: Path, conditions: Mapping) -> Path:
    """Return the file of the peak that is measured under these conditions."""
    return folder / f"{digest_of(conditions)[:16]}.json"


def write_peak(file: Path, conditions: Mapping, peak: Mapping) -> None:
    """Write a measured peak with the conditions under which it was measured."""
    write_text(file, json.dumps(sealed({"conditions": dict(conditions), "peak": dict(peak)}), indent=1) + "\n")


def read_peak(file: Path) -> dict:
    """Return "conditions" and "peak" of a file. Raises DataError if it is missing, damaged or was changed."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if is_sealed(document):
            return {key: document[key] for key in ("conditions", "peak")}
    except (OSError, ValueError, LookupError, AttributeError) as error:
        expect_damage(error, file)
    raise DataError(f"{file} is damaged or was changed; delete it, and the next run measures the peak again")
