"""Compare two results folders bit for bit: everything but times, memory and where a run was trained.

    python tests/same_results.py <results before> <results after>

It says what it compared, and ends with exit status 1 and the first difference where there is one. A change of the
project's structure must leave the curves, weights, tables and certificates of an experiment as they were.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

MEASURED = (
    r"seconds|per_second|wait|peak_|phases\.|wall_|joules|git_|started|code_|record_sha256|host|job_id|cpus|cpu_share"
    r"|foreign_share|packages_|energy_reason|environment|python|versions|scheduler|disturb|calls|load_1min|^day$|audited_epoch"
)
"""Columns that hold what a run took, which epoch was drawn, or where, when and by which code it was trained."""


LASTING = r"(test|train)_(loss|\w*accuracy)|scored_texts\..*|target_epochs|step_losses|compared_steps|ordered_epochs"
"""The metrics, in the table of numbers, that hold no time."""

PLACES = ("id", "number", "record", "run_numbers", "left_out_run_numbers", "note", "workers")
"""Columns and keys that say where a result is, which another version may keep elsewhere, or that some versions lack."""


def records_of(results: Path) -> dict[str, dict]:
    files = sorted((results / "runs").rglob("record.json"))
    return {file.relative_to(results).as_posix(): json.loads(file.read_text()) for file in files}


def run_of(record: dict) -> dict:
    """What a record says of its run, but for its place."""
    return {key: value for key, value in record["run"].items() if key not in PLACES}


def by_run(results: Path) -> dict[str, tuple[Path, dict]]:
    """The path and the content of each record."""
    records = records_of(results).items()
    return {json.dumps(run_of(record), sort_keys=True): (results / name, record) for name, record in records}


def certificates_of(results: Path) -> dict[str, dict]:
    """The certificates by experiment, recipe and dataset."""
    found = (json.loads(file.read_text()) for file in sorted((results / "certificates").rglob("*.json")))
    return {" ".join(one[key] for key in ("experiment", "recipe", "dataset")): one for one in found}


def trained(record: dict) -> dict:
    """What a record says of the arithmetic of its run."""
    timing = ("seconds", "waiting_seconds", "training_seconds", "part")  # a resumed run warms up again
    evaluated = {
        name: [{key: value for key, value in entry.items() if key not in timing} for entry in record[name]]
        for name in ("curves", "step_evaluations")
    }
    return evaluated | {"run": run_of(record)} | {key: record[key] for key in ("dataset", "status", "counted")}


def shared(one, other):
    """A document without the keys that another one lacks, which is of another version."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: shared(one[key], other[key]) for key in one.keys() & other.keys()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return list(map(shared, one, other))
    return one


def lasting_numbers(file: Path) -> pd.DataFrame:
    """The numbers that hold no time, as they are written: the type of a column would depend on the other rows."""
    numbers = pd.read_csv(file, dtype=str, keep_default_na=False)
    return numbers[numbers["metric"].str.fullmatch(LASTING)].reset_index(drop=True)


def compare(before: Path, after: Path, other_version: bool = False) -> list[str]:
    """What is the same, as lines. Raises AssertionError with the first difference.

    other_version: keys and columns that only one of the two has are passed over.
    """
    old, new = by_run(before), by_run(after)
    assert old and old.keys() == new.keys(), f"other runs: {old.keys() ^ new.keys()}"
    for name, (path, record) in old.items():
        other_path, other_record = new[name]
        own, others = trained(record), trained(other_record)
        own, others = (shared(own, others), shared(others, own)) if other_version else (own, others)
        assert own == others, f"{name}: other curves"
        # The audited epoch is drawn by chance, and versions of Python write different zip headers.
        if (record["weights"] or {}).get("sha256") != (other_record["weights"] or {}).get("sha256"):
            files = [file.with_name(record["weights"]["file"]) for file in (path, other_path)]
            assert all(file.exists() for file in files), f"{name}: weights of another SHA-256"
            one, other = map(np.load, files)
            assert one.files == other.files, f"{name}: other weights"
            assert all(np.array_equal(one[key], other[key]) for key in one.files), f"{name}: other weights"
    lines = [f"{len(old)} runs: curves and weights are equal"]
    for name in ("runs.parquet", "curves.parquet", "numbers.csv"):
        read = pd.read_parquet if name.endswith("parquet") else lasting_numbers
        one, other = (read(results / "tables" / name) for results in (before, after))
        assert other_version or list(one) == list(other), f"{name}: other columns"
        held = [column for column in one if column in other and column not in PLACES]
        held = [column for column in held if not re.search(MEASURED, column)]
        differing = [column for column in held if not one[column].equals(other[column])]
        assert not differing, f"{name}: other values in {differing}"
        lines.append(f"{name}: of {len(one.columns)} columns {len(held)} that hold no time are equal")
    certificates, others = (certificates_of(results) for results in (before, after))
    for group, certificate in certificates.items():
        assert certificate["pairs"] == others[group]["pairs"], f"{group}: other pairs"
    return [*lines, f"{len(certificates)} certificates: every difference of every pair is equal"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--other-version", action="store_true", help="pass over what only one of the two has")
    arguments = parser.parse_args()
    try:
        print("\n".join(compare(arguments.before, arguments.after, arguments.other_version)))
    except AssertionError as error:
        sys.exit(str(error))
