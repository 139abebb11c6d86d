"""Reads what a command reports of its epochs: from its output, or from a file that it writes."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.commands.entries import Chunks, Entry, equal, lines_of, numbers_of, shown, source_of
from trainmark.commands.patterns import read_matches
from trainmark.errors import CommandError
from trainmark.recipes.command import columns_of

NO_VALUES = ("", "na", "n/a", "none", "null")
"""What stands in a cell that is not filled, in lower case. NaN is a value: the loss of a training that diverged."""

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
"""A cell that no header has."""


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
    """Merge the entries of each epoch that says its number: one of its training, for example, and one of its test.

    They are in the order of their numbers, if all have one.
    """
    merged: dict[object, Entry] = {}
    for at, entry in enumerate(entries):
        epoch = entry.values.get("epoch", f"entry {at}")  # without a number, an entry is an epoch of its own
        merged[epoch] = _both(metrics, merged[epoch], entry) if epoch in merged else entry
    if not any("epoch" in entry.values for entry in merged.values()):
        return list(merged.values())
    if unnumbered := [entry for entry in merged.values() if "epoch" not in entry.values]:
        found = ", ".join(f"{name} {value:g}" for name, value in unnumbered[0].values.items())
        raise CommandError(
            f"{source_of(metrics)} has a report without the number of its epoch beside others that have it ({found}): "
            "let each have it, or read it in none"
        )
    return sorted(merged.values(), key=lambda entry: entry.values["epoch"])


def _both(metrics: Mapping, earlier: Entry, later: Entry) -> Entry:
    """Merge two entries of one epoch. Raises CommandError if they differ in a value, or each have a part of its time.

    The epoch ends with the later one, also if that is an equal report: of another rank, or of a second fit.
    """
    common = (earlier.values.keys() & later.values.keys()) - {"epoch", "elapsed_seconds"}
    parts = {"seconds"} & common if later.values.keys() - earlier.values.keys() else set()
    for name in sorted(common):
        if name in parts or not equal(earlier.values[name], later.values[name]):
            raise CommandError(
                f"{source_of(metrics)} has epoch {later.values['epoch']:g} twice, with {name} {earlier.values[name]:g} "
                f"and {later.values[name]:g}: let the command write each epoch once; if the lines are of training and "
                "of test, the format regex can tell them apart"
            )
    values = {**earlier.values, **later.values}
    if "elapsed_seconds" in earlier.values:
        values["elapsed_seconds"] = max(earlier.values["elapsed_seconds"], values["elapsed_seconds"])
    unseen = earlier.seen is None or later.seen is None
    return Entry(values, None if unseen else max(earlier.seen, later.seen))  # type: ignore[type-var]


def _csv(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    header: list[str] = []
    headers: list[str] = []
    names = {*columns_of(metrics).values()}
    for seen, line in lines_of(text):
        if not line.strip():
            continue
        mark = next((mark for mark in ";\t" if mark in line), ",")
        cells = _cells(line, mark)
        if not header or (names & {*cells} and not any(map(NUMBER.fullmatch, cells))):  # again, or another
            header, delimiter = cells, mark
            headers += header
            _check_header(metrics, header)
            continue
        if mark != delimiter:
            cells = _cells(line, delimiter)
        if any(cells[len(header) :]):
            raise CommandError(
                f"{source_of(metrics)} has {len(cells)} values in the line {shown(line)}, and its header has "
                f"{len(header)}: a number has a point, not a comma, and each column has a name"
            )
        yield from _row(metrics, dict(zip(header, cells, strict=False)), f"the line {shown(line)}", seen)
    if headers and (missing := [column for column in metrics["columns"].values() if column.strip() not in headers]):
        raise CommandError(
            f"{source_of(metrics)} lacks the column {missing[0].strip()}; it has {', '.join(headers)[:200]}"
        )


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


def _check_header(metrics: Mapping, header: Sequence[str]) -> None:
    """Raise CommandError if no column is known, or one is there twice."""
    columns = columns_of(metrics)
    if not {columns[name] for name in columns.keys() - {"epoch"}} & {*header}:
        lacking = ", ".join(columns.values())
        raise CommandError(f"{source_of(metrics)} lacks the column {lacking}; it has {', '.join(header)[:200]}")
    if twice := [column for column in columns.values() if header.count(column) > 1]:
        raise CommandError(f"{source_of(metrics)} has the column {twice[0]} twice: let each column have its own name")


def _row(metrics: Mapping, row: Mapping[str, Any], where: str, seen: float | None) -> Iterator[Entry]:
    """Yield the entry of a row, by column; none if it fills none of the metrics."""
    values = {name: row.get(column) for name, column in columns_of(metrics).items()}
    filled = {name: value for name, value in values.items() if str(value).strip().lower() not in NO_VALUES}
    if filled.keys() - {"epoch"}:
        yield Entry(numbers_of(metrics, filled, where), seen)


def _json_lines(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    """Lines that are no JSON object, or that hold none of the metrics, are of other events."""
    dictionary = _object_of(metrics)
    for seen, line in lines_of(text):
        try:
            row = json.loads(line.strip().rstrip(","), object_pairs_hook=dictionary)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield from _row(metrics, row, f"the line {shown(line)}", seen)


def _object_of(metrics: Mapping) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return a function from the pairs of a JSON object to its dictionary, which refuses two values for one column."""

    columns = {*columns_of(metrics).values()}

    def dictionary(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for key, value in ((key.strip(), value) for key, value in pairs):
            if key in row and key in columns and str(row[key]) != str(value):
                raise CommandError(f"{source_of(metrics)} has {row[key]} and {value} as {shown(key)} in one object")
            row[key] = value
        return row

    return dictionary


def _log_report(metrics: Mapping, _: Chunks, path: Path | None) -> Iterator[Entry]:
    assert path is not None, "the format has a default file"
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_object_of(metrics))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source_of(metrics)} is no JSON file: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"{source_of(metrics)} is no list of entries, as Chainer's LogReport writes it")
    for row in rows:
        yield from _row(metrics, row, f"the entry {shown(json.dumps(row))}", None)


def _tensorboard(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    """One entry per step. Its time is the largest wall time of its scalars."""
    names = {tag: name for name, tag in columns_of(metrics).items()}
    steps: dict[int, dict[str, float]] = {}
    places: dict[tuple[int, str], tuple[float, str]] = {}  # (value, its file) by step and tag
    found = set()
    for _seen, line in lines_of(text):
        wall_time, step, tag, value, file = json.loads(line)
        found.add(tag)
        if tag not in names:
            continue
        number = numbers_of(metrics, {names[tag]: value}, f"step {step} of the tag {tag}").get(names[tag])
        if number is None:  # an accuracy that is NaN
            continue
        is_new = (step, tag) not in places
        earlier, earlier_file = places.setdefault((step, tag), (number, file))
        if not equal(earlier, number):
            raise CommandError(
                f"{source_of(metrics)} has two values as the tag {tag} at step {step}: {earlier:g} in {earlier_file} "
                f"and {number:g} in {file}; let each fit and rank write to its own folder, which is part of the tag"
            )
        if is_new:
            values = steps.setdefault(step, {"elapsed_seconds": wall_time})
            values |= {names[tag]: number, "elapsed_seconds": max(values["elapsed_seconds"], wall_time)}
    if missing := sorted(names.keys() - found):
        tags = ", ".join(sorted(found)) or "no scalar"
        raise CommandError(f"{source_of(metrics)} lacks the tag {missing[0]}; it has {tags[:200]}")
    for _step, values in sorted(steps.items()):
        yield Entry(values, None)


READERS = {
    "regex": lambda metrics, text, _: read_matches(metrics, text),
    "csv": _csv,
    "json-lines": _json_lines,
    "chainer-log-report": _log_report,
    "keras-csv-logger": _csv,
    "tensorboard": _tensorboard,
}
