"""Reads what a command reports of its epochs: from its output, or from a file that it writes."""

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.errors import CommandError
from trainmark.recipes.command import columns_of, metrics_file, patterns_of

Chunks = Sequence[tuple[float, bytes]]
"""Pieces of a growing text, each with the time at which it was seen, on the clock of `time.monotonic`."""

LINE_ENDS = re.compile(r"[\r\n\b]+")
"""Ends of lines, also of those that a progress bar overwrites."""

ANSI_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of a terminal's cursor."""

LARGEST_MIB = 100
"""Largest output and largest file that is read."""

NO_VALUES = ("", "na", "n/a", "none", "null")
"""What stands in a cell that is not filled, in lower case. NaN is a value: the loss of a training that diverged."""

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Entry:
    """What a command reports of one epoch.

    values: by metric. seen: when the report was seen, on the clock of `time.monotonic`; None if unknown.
    """

    values: Mapping[str, float]
    seen: float | None


def lines_of(chunks: Chunks) -> Iterator[tuple[float, str]]:
    """Yield the lines of a text without terminal codes, each with the time at which its end was seen."""
    rest = ""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    for seen, data in chunks:
        *complete, rest = LINE_ENDS.split(rest + decoder.decode(data))
        yield from ((seen, ANSI_CODES.sub("", line)) for line in complete if line)
    if rest and chunks:
        yield chunks[-1][0], ANSI_CODES.sub("", rest)


def read_entries(metrics: Mapping, text: Chunks, path: Path | None) -> list[Entry]:
    """Return what the command reported of each epoch, in order, with the reports of one epoch merged.

    metrics: the key `metrics` of the command, with defaults.
    text: the command's output; for a format of lines, the pieces of its file; for tensorboard, what events.py prints.
    path: the file of the other formats.

    Raises CommandError if it can't be read.
    """
    try:
        return _merged(metrics, READERS[metrics["format"]](metrics, text, path))
    except UnicodeDecodeError as error:
        raise CommandError(f"{source_of(metrics)} is no text: {error.reason}") from error
    except csv.Error as error:
        raise CommandError(f"{source_of(metrics)} is no CSV file: {error}") from error


def _merged(metrics: Mapping, entries: Iterable[Entry]) -> list[Entry]:
    """Merge the entries of each epoch that says its number: one of its training, for example, and one of its test."""
    merged: dict[object, Entry] = {}
    for at, entry in enumerate(entries):
        epoch = entry.values.get("epoch", f"entry {at}")  # without a number, an entry is an epoch of its own
        earlier = merged.get(epoch, Entry({}, None)).values
        if twice := (earlier.keys() & entry.values.keys()) - {"epoch", "elapsed_seconds"}:
            name = min(twice)
            raise CommandError(
                f"{source_of(metrics)} has epoch {entry.values['epoch']:g} twice, with {name} {earlier[name]:g} "
                f"and {entry.values[name]:g}: let the command write each epoch once; if the lines are of training and "
                "of test, the format regex can tell them apart"
            )
        merged[epoch] = Entry({**earlier, **entry.values}, entry.seen)
    return list(merged.values())


def _regex(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    patterns = [re.compile(pattern) for pattern in patterns_of(metrics)]
    values: dict[str, float] = {}
    for seen, line in lines_of(text):
        for pattern in patterns:
            if match := pattern.search(line):
                found = {name: value for name, value in match.groupdict().items() if value is not None}
                values |= _numbers(metrics, found, f"the line {_shown(line)}")
                if pattern is patterns[-1]:
                    yield Entry(values, seen)
                    values = {}


def _csv(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    header: list[str] = []
    for seen, line in lines_of(text):
        if not line.strip():
            continue
        if not header:
            delimiter = next((mark for mark in ";\t" if mark in line), ",")
            header = _cells(line, delimiter)
            _check_header(metrics, header)
            continue
        cells = _cells(line, delimiter)
        if any(cells[len(header) :]):
            raise CommandError(
                f"{source_of(metrics)} has {len(cells)} values in the line {_shown(line)}, and its header has "
                f"{len(header)}: a number has a point, not a comma, and each column has a name"
            )
        if cells != header:  # which a command writes again when it starts again
            yield from _row(metrics, dict(zip(header, cells, strict=False)), f"the line {_shown(line)}", seen)


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


def _check_header(metrics: Mapping, header: Sequence[str]) -> None:
    """Raise CommandError if a column that the config names is not there, or there twice, or if no column is known."""
    columns = columns_of(metrics)
    missing = [column for name, column in columns.items() if name in metrics["columns"] and column not in header]
    if missing or not {columns[name] for name in columns.keys() - {"epoch"}} & {*header}:
        lacking = missing[0] if missing else ", ".join(columns.values())
        raise CommandError(f"{source_of(metrics)} lacks the column {lacking}; it has {', '.join(header)[:200]}")
    if twice := [column for column in columns.values() if header.count(column) > 1]:
        raise CommandError(f"{source_of(metrics)} has the column {twice[0]} twice: let each column have its own name")


def _row(metrics: Mapping, row: Mapping[str, Any], where: str, seen: float | None) -> Iterator[Entry]:
    """Yield the entry of a row, by column; none if it fills none of the metrics."""
    by_column = {str(column).strip(): value for column, value in row.items()}
    values = {name: by_column.get(column) for name, column in columns_of(metrics).items()}
    filled = {name: value for name, value in values.items() if str(value).strip().lower() not in NO_VALUES}
    if filled.keys() - {"epoch"}:
        yield Entry(_numbers(metrics, filled, where), seen)


def _json_lines(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    """Lines that are no JSON object, or that hold none of the metrics, are of other events."""
    for seen, line in lines_of(text):
        try:
            row = json.loads(line.strip().rstrip(","))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield from _row(metrics, row, f"the line {_shown(line)}", seen)


def _log_report(metrics: Mapping, _: Chunks, path: Path | None) -> Iterator[Entry]:
    assert path is not None, "the format has a default file"
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source_of(metrics)} is no JSON file: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"{source_of(metrics)} is no list of entries, as Chainer's LogReport writes it")
    for row in rows:
        yield from _row(metrics, row, f"the entry {_shown(json.dumps(row))}", None)


def _tensorboard(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    """One entry per step. Its time is the largest wall time of its scalars."""
    names = {tag: name for name, tag in columns_of(metrics).items()}
    steps: dict[int, dict[str, float]] = {}
    for _seen, line in lines_of(text):
        wall_time, step, tag, value = json.loads(line)
        if tag not in names:
            continue
        values = steps.setdefault(step, {"elapsed_seconds": wall_time})
        number = _numbers(metrics, {names[tag]: value}, f"step {step} of the tag {tag}")[names[tag]]
        earlier = values.get(names[tag], number)
        if str(earlier) != str(number):  # as text, NaN equals NaN
            raise CommandError(f"{source_of(metrics)} has {earlier:g} and {number:g} as the tag {tag} at step {step}")
        values |= {names[tag]: number, "elapsed_seconds": max(values["elapsed_seconds"], wall_time)}
    for _step, values in sorted(steps.items()):
        yield Entry(values, None)


READERS = {
    "regex": _regex,
    "csv": _csv,
    "json-lines": _json_lines,
    "chainer-log-report": _log_report,
    "keras-csv-logger": _csv,
    "tensorboard": _tensorboard,
}


def _numbers(metrics: Mapping, found: Mapping[str, Any], where: str) -> dict[str, float]:
    """Convert what was found to numbers, accuracies to shares of 1. Raises CommandError for anything else."""
    numbers = {}
    for name, value in found.items():
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise CommandError(
                f"{source_of(metrics)} has {_shown(str(value))} as {name}, which is no number, in {where}"
            )
        if name.endswith("accuracy") and not 0 <= number <= metrics["accuracy_of"]:
            raise CommandError(
                f"{source_of(metrics)} has {number:g} as {name}, which is not between 0 and "
                f"{metrics['accuracy_of']:g}, in {where}; if that is percent, set accuracy_of: 100"
            )
        numbers[name] = number / metrics["accuracy_of"] if name.endswith("accuracy") else number
    return numbers


def source_of(metrics: Mapping) -> str:
    """Return what messages call the text or file that is read."""
    return f"the file {file}" if (file := metrics_file(metrics)) else "its output"


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")
