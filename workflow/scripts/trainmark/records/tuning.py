"""Timed tunings: for each tuned trainer, a JSON file with the times of its steps and the chosen number of threads."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("tuning.schema.json")

THREADS = "threads"
"""Name of the step that changes the number of threads."""

_FILES = JsonFiles("timed tuning", SCHEMA_FILE, RecordError, "delete it, and snakemake times the loop again")


write_tuning, read_tuning = _FILES.write, _FILES.read


def taken_over(paths: Iterable[Path], same: Mapping[str, Any]) -> dict | None:
    """Return the first of these timed tunings that has the same values under these keys; None if there is none.

    A timing that was left out, or can't be read, is not taken.
    """
    for path in paths:
        with suppress(RecordError):
            tuning = read_tuning(path)
            if not tuning["left_out"] and all(tuning[key] == value for key, value in same.items()):
                return {key: value for key, value in tuning.items() if key != "sha256"}
    return None


def chosen_threads(path: Path | None, cpu_model: str, cpus: Sequence[int]) -> int:
    """Return the number of threads of a run: that of a timed tuning, if it was made with as many CPUs of this model.

    path: the timed tuning; None without one.
    cpus: CPUs that the run holds. Without a choice, each has a thread.
    """
    tuning = read_tuning(path) if path else None
    if tuning and (tuning["machine"]["cpu_model"], tuning["machine"]["cpus"]) == (cpu_model, len(cpus)):
        return int(tuning["threads"])
    return len(cpus)
