"""Timed tunings: for each tuned trainer, a JSON file with the times of its steps and the chosen number of threads."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("tuning.schema.json")

THREADS = "threads"
"""Name of the step that changes the number of threads."""

_FILES = JsonFiles("timed tuning", SCHEMA_FILE, RecordError, "delete it, and snakemake times the loop again")


write_tuning, read_tuning = _FILES.write, _FILES.read


def chosen_threads(path: Path | None, cpu_model: str, cpus: Sequence[int], settings: Mapping[str, str]) -> int:
    """Return the number of threads of a run: that of a timed tuning, if it was made on such a machine.

    path: the timed tuning; None without one.
    cpu_model, cpus, settings: model and numbers of the CPUs that the run holds, and its settings of libraries. Without
        a choice, each CPU has a thread.
    """
    machine = {"cpu_model": cpu_model, "cpus": len(cpus), "settings": dict(settings)}
    tuning = read_tuning(path) if path else None
    return int(tuning["threads"]) if tuning and machine.items() <= tuning["machine"].items() else len(cpus)
