"""Timed tunings: for each tuned trainer, a JSON file with the times of its steps and the chosen number of threads."""

from collections.abc import Sequence
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("tuning.schema.json")

THREADS = "threads"
"""Name of the step that changes the number of threads."""

_FILES = JsonFiles("timed tuning", SCHEMA_FILE, RecordError, "delete it, and snakemake times the loop again")


write_tuning, read_tuning = _FILES.write, _FILES.read


def chosen_threads(path: Path | None, cpu_model: str, cpus: Sequence[int]) -> int:
    """Return the number of threads of a run: that of a timed tuning, if it was made with as many CPUs of this model.

    path: the timed tuning; None without one.
    cpus: CPUs that the run holds. Without a choice, each has a thread.
    """
    tuning = read_tuning(path) if path else None
    if tuning and (tuning["machine"]["cpu_model"], tuning["machine"]["cpus"]) == (cpu_model, len(cpus)):
        return int(tuning["threads"])
    return len(cpus)
