"""Attempts of one run (`rerun_disturbed`): the record of the least disturbed one stays, and it names the others."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.records.record import read_record

FOLDER = "earlier"
"""The files of an attempt while another one runs, in a folder next to the record: Snakemake deletes that first."""


def set_aside(record: Path) -> None:
    """Copy the files of a run that is to be trained again, but no folders: a checkpoint, or what a command wrote."""
    folder = record.with_name(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in filter(Path.is_file, record.parent.iterdir()):
        shutil.copy2(file, folder)


def least_disturbed(new: Mapping, record: Path, is_of_this_run: Callable[[dict], bool]) -> dict:
    """Return the record of an attempt, or that of the one set aside if it was less disturbed; it names the other.

    The files next to the record are then those of its attempt.

    record: the path of the run's record.
    """
    folder = record.with_name(FOLDER)
    try:
        earlier = read_record(folder / record.name)
    except RecordError:  # there is none
        return dict(new)
    if not is_of_this_run(earlier):
        return dict(new)
    others = earlier["other_attempts"]
    if _excess(new) <= _excess(earlier):
        return {**new, "other_attempts": [*others, _summary(earlier)]}
    for file in filter(Path.is_file, record.parent.iterdir()):
        file.unlink()
    for file in folder.iterdir():
        if file.name != record.name:
            file.replace(record.with_name(file.name))
    return {**earlier, "other_attempts": [*others, _summary(new)]}


def forget_others(record: Path) -> None:
    """Delete what was set aside, after the record is written."""
    shutil.rmtree(record.with_name(FOLDER), ignore_errors=True)


def _excess(record: Mapping) -> tuple[bool, float]:
    """How disturbed a run was: the largest ratio of a value to its limit. A run that did not end well is worse."""
    causes = (record["disturbed"] or {"causes": []})["causes"]
    return record["status"] != "ok", max((cause["value"] / cause["limit"] for cause in causes), default=0.0)


def _summary(record: Mapping) -> dict:
    return {
        "started": record["provenance"]["started"],
        "training_seconds": record["result"]["training_seconds"],
        "disturbed": record["disturbed"],
    }
