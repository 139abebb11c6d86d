"""Reads what a command reports of its epochs: from its output, or from a file that it writes."""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainmark.commands.tensorboard import read_scalars
from trainmark.errors import CommandError
from trainmark.recipes.command import FORMATS, columns_of, metrics_file, patterns_of
from trainmark.records.record import encode_loss

Chunks = Sequence[tuple[float, bytes]]
"""Pieces of a growing text, each with the time at which it was seen, on the clock of `time.monotonic`."""

LINE_ENDS = re.compile(r"[\r\n\b]+")
"""Ends of lines, also of those that a progress bar overwrites."""

ANSI_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of a terminal's cursor."""

LARGEST_MIB = 100
"""Largest output and largest file that is read."""

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
    for seen, data in chunks:
        *complete, rest = LINE_ENDS.split(rest + data.decode(errors="replace"))
        yield from ((seen, ANSI_CODES.sub("", line)) for line in complete if line)
    if rest and chunks:
        yield chunks[-1][0], ANSI_CODES.sub("", rest)


def read_entries(metrics: Mapping, text: Chunks, path: Path | None) -> list[Entry]:
    """Return what the command reported of each epoch, in order.

    metrics: the key `metrics` of the command, with defaults.
    text: the command's output or, for a format of lines, the pieces of its file.
    path: the file or folder of the other formats.

    Raises CommandError if it can't be read.
    """
    try:
        return list(READERS[metrics["format"]](metrics, text, path))
    except UnicodeDecodeError as error:
        raise CommandError(f"{_source(metrics)} is no text: {error.reason}") from error
    except csv.Error as error:
        raise CommandError(f"{_source(metrics)} is no CSV file: {error}") from error


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
    columns: dict[str, str] = {}
    for seen, line in lines_of(text):
        row = next(csv.reader([line]))
        if not header:
            header, columns = row, _present(metrics, row)
            continue
        found = {name: row[header.index(column)] for name, column in columns.items() if header.index(column) < len(row)}
        yield Entry(_numbers(metrics, found, f"the line {_shown(line)}"), seen)


def _json_lines(metrics: Mapping, text: Chunks, _: Path | None) -> Iterator[Entry]:
    """Lines that are no JSON object, or that hold none of the metrics, are of other events."""
    for seen, line in lines_of(text):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        present = row if isinstance(row, dict) else {}
        columns = {name: column for name, column in columns_of(metrics).items() if column in present}
        if set(columns) - {"epoch"}:
            found = {name: row[column] for name, column in columns.items()}
            yield Entry(_numbers(metrics, found, f"the line {_shown(line)}"), seen)


def _log_report(metrics: Mapping, _: Chunks, path: Path | None) -> Iterator[Entry]:
    assert path is not None, "the format has a default file"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{_source(metrics)} is no JSON file: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"{_source(metrics)} is no list of entries, as Chainer's LogReport writes it")
    for row in rows:
        found = {name: row[column] for name, column in columns_of(metrics).items() if column in row}
        yield Entry(_numbers(metrics, found, f"the entry {_shown(json.dumps(row))}"), None)


def _tensorboard(metrics: Mapping, _: Chunks, path: Path | None) -> Iterator[Entry]:
    """One entry per step. Its time is the largest wall time of its scalars."""
    assert path is not None, "the config names a file"
    names = {tag: name for name, tag in columns_of(metrics).items()}
    steps: dict[int, dict[str, float]] = {}
    for wall_time, step, tag, value in read_scalars(path):
        if tag in names:
            found = steps.setdefault(step, {"elapsed_seconds": wall_time})
            found |= _numbers(metrics, {names[tag]: value}, f"step {step} of the tag {tag}")
            found["elapsed_seconds"] = max(found["elapsed_seconds"], wall_time)
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


def _present(metrics: Mapping, header: Sequence[str]) -> dict[str, str]:
    """Return the columns that a table has. Those that the config names itself must be there."""
    missing = [column for column in metrics["columns"].values() if column not in header]
    columns = {name: column for name, column in columns_of(metrics).items() if column in header}
    if missing or not set(columns) - {"epoch"}:
        lacking = missing[0] if missing else ", ".join(columns_of(metrics).values())
        raise CommandError(f"{_source(metrics)} lacks the column {lacking}; it has {', '.join(header)[:200]}")
    return columns


def _numbers(metrics: Mapping, found: Mapping[str, Any], where: str) -> dict[str, float]:
    """Convert what was found to numbers, accuracies to shares of 1. Raises CommandError for anything else."""
    numbers = {}
    for name, value in found.items():
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise CommandError(f"{_source(metrics)} has {_shown(str(value))} as {name}, which is no number, in {where}")
        if name.endswith("accuracy"):
            number = _share(metrics, number, name, where)
        numbers[name] = number
    return numbers


def _share(metrics: Mapping, accuracy: float, name: str, where: str) -> float:
    share: float = accuracy / metrics["accuracy_of"]
    if not 0 <= share <= 1:
        raise CommandError(
            f"{_source(metrics)} has {accuracy:g} as {name}, which is not between 0 and {metrics['accuracy_of']:g}, in "
            f"{where}; if that is percent, set accuracy_of: 100"
        )
    return share


def _source(metrics: Mapping) -> str:
    return f"the file {file}" if (file := metrics_file(metrics)) else "its output"


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")


# --- curves ---------------------------------------------------------------------------------------------------------


def curves_of(
    metrics: Mapping, entries: Sequence[Entry], epochs: int, start: float, end: float
) -> tuple[list[dict], dict | None]:
    """Return (the curves, where the loss diverged or None), as the record holds them.

    An entry more than epochs, of epoch 0, is from before the training and only begins the time of the first epoch.

    start, end: when the command started and ended, on the clock of `time.monotonic`.

    Raises CommandError if the entries are not those of the epochs, or have no usable times.
    """
    before: Entry | None = None
    if len(entries) == epochs + 1 and entries[0].values.get("epoch") == 0:
        before, *entries = entries
    diverged = next((at for at, entry in enumerate(entries, start=1) if _not_finite(entry)), None)
    if len(entries) != epochs and not (diverged and len(entries) < epochs):
        raise CommandError(_wrong_count(metrics, len(entries), epochs))
    _check_numbers(metrics, entries, before)
    seconds = _seconds(metrics, before, entries, start, end)
    curves = [
        {
            "epoch": number,
            "part": "warm_up" if number == 1 else "steady",
            "seconds": epoch_seconds,
            "waiting_seconds": None,
            "batch_loss": _loss(entry, "loss"),
            "step_losses": None,
            "evaluations": {
                "test": _evaluation(entry, "test_loss", "test_accuracy"),
                "train": _evaluation(entry, "loss", "accuracy"),
            },
        }
        for number, (entry, epoch_seconds) in enumerate(zip(entries, seconds, strict=True), start=1)
    ][:diverged]
    return curves, _divergence(entries, diverged) if diverged else None


def _evaluation(entry: Entry, loss: str, accuracy: str) -> dict:
    return {"loss": _loss(entry, loss), "accuracy": entry.values.get(accuracy), "top5_accuracy": None}


def _loss(entry: Entry, name: str) -> float | str | None:
    return encode_loss(entry.values[name]) if name in entry.values else None


def _losses(entry: Entry) -> list[float]:
    return [entry.values[name] for name in ("loss", "test_loss") if name in entry.values]


def _not_finite(entry: Entry) -> bool:
    return not all(map(math.isfinite, _losses(entry)))


def _divergence(entries: Sequence[Entry], epoch: int) -> dict:
    earlier = _losses(entries[epoch - 2])[:1] if epoch > 1 else []
    kind = "nan" if any(map(math.isnan, _losses(entries[epoch - 1]))) else "inf"
    return {"kind": kind, "epoch": epoch, "step": None, "last_finite_loss": earlier[0] if earlier else None}


def _wrong_count(metrics: Mapping, found: int, epochs: int) -> str:
    if not found:
        what = "no line that matches the pattern" if metrics["format"] == "regex" else "no epoch"
        return f"{_source(metrics)} has {what}: compare it with the key metrics of the command"
    return (
        f"{_source(metrics)} has {found} epoch{'s' if found > 1 else ''}, and the run is of {epochs}: does the command "
        "use {epochs}?"
    )


def _check_numbers(metrics: Mapping, entries: Sequence[Entry], before: Entry | None) -> None:
    """Raise CommandError if the epochs' own numbers do not follow each other."""
    numbers = [entry.values["epoch"] for entry in [before, *entries] if entry and "epoch" in entry.values]
    if any(later != earlier + 1 for earlier, later in pairwise(numbers)):
        first = ", ".join(f"{number:g}" for number in numbers[:8])
        raise CommandError(f"{_source(metrics)} has the epochs {first}, which do not follow each other")


def _seconds(
    metrics: Mapping, before: Entry | None, entries: Sequence[Entry], start: float, end: float
) -> Iterable[float]:
    """Return the time of each epoch: the command's own or, without one, between the moments of two reports."""
    ran_seconds = end - start
    if all("seconds" in entry.values for entry in entries):
        own = True
        seconds = [entry.values["seconds"] for entry in entries]
    elif all("elapsed_seconds" in entry.values for entry in entries):
        own = True
        first = (before or Entry({}, None)).values.get("elapsed_seconds", 0.0)
        ends = [first, *(entry.values["elapsed_seconds"] for entry in entries)]
        if FORMATS[metrics["format"]].has_times and before is None:  # wall times: the first epoch begins unseen
            ends[0] = ends[1] - max(ran_seconds - (ends[-1] - ends[1]), 0.0)
        seconds = [later - earlier for earlier, later in pairwise(ends)]
    else:
        own = False
        moments = [start, *(entry.seen for entry in entries)]
        if before:
            moments[0] = before.seen
        if None in moments:
            raise CommandError(f"{_source(metrics)} has no times: name seconds or elapsed_seconds in columns")
        seconds = [later - earlier for earlier, later in pairwise(moments)]  # type: ignore[operator]
        if min(seconds[1:], default=1.0) < 0.001:
            raise CommandError(
                f"{_source(metrics)} reports several epochs at the same moment, so their times are unknown: let the "
                "command write each epoch at once (python -u, flush=True), or read seconds from it"
            )
    _check_seconds(metrics, seconds, ran_seconds, own)
    return seconds


def _check_seconds(metrics: Mapping, seconds: Sequence[float], ran_seconds: float, own: bool) -> None:
    """Raise CommandError for times that can't be: negative, not finite, or longer than the command ran."""
    for epoch, value in enumerate(seconds, start=1):
        if not math.isfinite(value) or value < 0:
            raise CommandError(f"{_source(metrics)} gives epoch {epoch} {value:g} s, which is no time")
    rounded = 0.5 if all(value == int(value) for value in seconds) else 0.01
    if own and sum(seconds) > ran_seconds + rounded * len(seconds):
        raise CommandError(
            f"{_source(metrics)} gives its epochs {sum(seconds):.1f} s, but the command ran for {ran_seconds:.1f} s"
        )
