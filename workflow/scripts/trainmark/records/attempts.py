"""Attempts of one run (`rerun_disturbed`): the last record is that of the least disturbed one, and names the others."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from trainmark.errors import RecordError
from trainmark.records.record import read_record


def least_disturbed(new: Mapping, record: Path, is_of_this_run: Callable[[dict], bool]) -> dict:
    """Return the record of an attempt, or that of the one before it if it was less disturbed; it names the other.

    The files next to the record are then those of its attempt. The folder of the attempt before stays as it is.

    record: the path of the run's record. The folders of the attempts are <key>, <key>.2, <key>.3, ...
    """
    folder = _attempt_before(record.parent)
    try:
        earlier = read_record(folder / record.name) if folder else {}
    except RecordError:  # there is none
        return dict(new)
    if not folder or not is_of_this_run(earlier):
        return dict(new)
    others = earlier["other_attempts"]
    if _excess(new) <= _excess(earlier):
        return {**new, "other_attempts": [*others, _summary(earlier)]}
    for file in filter(Path.is_file, record.parent.iterdir()):
        file.unlink()
    for file in filter(Path.is_file, folder.iterdir()):
        if file.name != record.name:
            shutil.copy2(file, record.parent)
    return {**earlier, "other_attempts": [*others, _summary(new)]}


def _attempt_before(folder: Path) -> Path | None:
    """Return the folder of the attempt before the one in this folder; None if it is the first."""
    key, _, number = folder.name.partition(".")
    if not number:
        return None
    return folder.with_name(f"{key}.{int(number) - 1}" if int(number) > 2 else key)


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
