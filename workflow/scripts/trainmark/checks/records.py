"""Reads the records of a campaign."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.plan.keys import key_of_record
from trainmark.plan.run import Run
from trainmark.records.record import read_record


def read_records(folder: Path, paths: Mapping[str, str]) -> dict[str, dict]:
    """Read records; return them by path, in the given order.

    folder: the results folder. paths: the path in it of each record, by run id.

    Raises RecordError if a record can't be read, belongs to another run than its path says, or has another key.
    """
    records = {}
    for run_id, file in paths.items():
        path = folder / file
        record = read_record(path)
        trained = Run.of(record["run"]).id
        if (record["run"]["id"], trained, key_of_record(record)) != (run_id, run_id, path.parent.name.split(".")[0]):
            raise RecordError(
                f"{path} is the record of another run, {trained}: it was copied or moved; delete it, and snakemake "
                "trains the run again"
            )
        records[str(path)] = record
    return records


def group_of(record: Mapping) -> tuple[str, str, str]:
    """Experiment, recipe and dataset of a record."""
    run = record["run"]
    return run["experiment"], run["recipe"], run["dataset"]
