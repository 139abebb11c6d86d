"""Cross-evaluations: JSON files of the test results that one trainer gets from the trained weights of another's runs.

`results/evaluations` holds a file for each trainer, with an entry for each run that it evaluates. Where weights were
removed after their evaluation, a file beside the record holds the entry of that run alone.
"""

from collections.abc import Mapping
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.files.json_schema import JsonFiles

SCHEMA_FILE = Path(__file__).with_name("evaluation.schema.json")

REMOVED_FILE = "evaluation.json"
"""Name of the file beside a record that holds the evaluation of weights that were then removed."""

LOSS_ALLOWED, LEAST_LOSS_ALLOWED = 1e-4, 1e-5
"""How much the test losses of record and evaluation may differ: relative to the record's, and in any case."""

SAMPLES_ALLOWED = 1e-3
"""Share of the test samples that the two may classify differently (one sample in any case): their two best classes may
be too close to each other."""

RECORD_AGAIN = "delete the record beside it, and snakemake trains the run again"
"""What to do about a file beside a record that is missing or not the record's."""

_FILES = JsonFiles("cross-evaluation", SCHEMA_FILE, RecordError, "delete it, and snakemake evaluates again")
_OF_REMOVED = JsonFiles("cross-evaluation", SCHEMA_FILE, RecordError, RECORD_AGAIN)


write_evaluation, read_evaluation = _FILES.write, _FILES.read


def read_evaluation_of_removed(record_file: Path, record: Mapping) -> dict | None:
    """Return the entry of a run whose weights were removed after their evaluation.

    None where there is no file of such an entry, or it is of other weights than the record names. Raises RecordError
    where the file can't be read.
    """
    path = record_file.with_name(REMOVED_FILE)
    entry: dict | None = _OF_REMOVED.read(path)["runs"].get(record["run"]["id"]) if path.exists() else None
    return entry if entry and entry["weights_sha256"] == record["weights"]["sha256"] else None


def agrees(record: Mapping, entry: Mapping) -> bool:
    """Whether an entry is of the record's weights and gives the record's test loss and accuracy."""
    result, samples = record["result"], record["dataset"]["samples"]["test"]
    if entry["weights_sha256"] != record["weights"]["sha256"]:
        return False
    loss, other = float(result["test_loss"]), float(entry["loss"])
    flipped = abs(result["test_accuracy"] - entry["accuracy"]) * samples
    same_loss = abs(loss - other) <= max(LEAST_LOSS_ALLOWED, LOSS_ALLOWED * abs(loss))
    return same_loss and flipped <= max(1.5, SAMPLES_ALLOWED * samples)
