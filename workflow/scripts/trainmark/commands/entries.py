"""What a command reports: the lines of its text, and the numbers in them."""

import codecs
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainmark.errors import CommandError
from trainmark.recipes.command import metrics_file

Chunks = Sequence[tuple[float | None, bytes]]
"""Pieces of a text, each with the time at which it was seen, on the clock of `time.monotonic`; None if unknown."""

LINE_ENDS = re.compile(r"[\r\n\b]+")
"""Ends of lines, also of those that a progress bar overwrites."""

ANSI_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of a terminal's cursor."""

CLOCK = re.compile(r"\d+(?::\d\d){1,2}(?:\.\d+)?")
"""Minutes and seconds, or hours, minutes and seconds: 1:23, 0:01:23.5."""

ROUNDING = 1e-6
"""By so much an accuracy may exceed that of all samples: the mean in float32 of numbers that are 1."""

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Entry:
    """What a command reports of one epoch.

    values: by metric. seen: when the report was seen, on the clock of `time.monotonic`; None if unknown.
    """

    values: Mapping[str, float]
    seen: float | None


def lines_of(chunks: Chunks) -> Iterator[tuple[float | None, str]]:
    """Yield the lines of a text without terminal codes, each with the time at which its last character was seen."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    line: list[str] = []
    line_seen: float | None = None
    for seen, data in chunks:
        for number, piece in enumerate(LINE_ENDS.split(decoder.decode(data))):
            if number and line:
                yield line_seen, ANSI_CODES.sub("", "".join(line))
                line = []
            if piece:
                line.append(piece)
                line_seen = seen
    if line:
        yield line_seen, ANSI_CODES.sub("", "".join(line))


def equal(first: float, second: float) -> bool:
    """Whether two values are one report. NaN equals NaN."""
    return str(first) == str(second)


def numbers_of(metrics: Mapping, found: Mapping[str, Any], where: str) -> dict[str, float]:
    """Convert what was found to numbers, accuracies to shares of 1. Raises CommandError for anything else."""
    numbers = {}
    for name, value in found.items():
        number = _number(name, value)
        if number is None:
            raise CommandError(
                f"{source_of(metrics)} has {shown(str(value))} as {name}, which is no number, in {where}"
            )
        if name.endswith("accuracy"):
            if math.isnan(number):
                continue  # of an epoch that diverged
            if not 0 <= number <= metrics["accuracy_of"] * (1 + ROUNDING):
                raise CommandError(
                    f"{source_of(metrics)} has {number:g} as {name}, which is not between 0 and "
                    f"{metrics['accuracy_of']:g}, in {where}; if that is percent, set accuracy_of: 100"
                )
            number = min(number / metrics["accuracy_of"], 1.0)
        numbers[name] = number
    return numbers


def _number(name: str, value: object) -> float | None:
    """Return the number that a text or a number stands for; for a time, also that of 1:23. None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        if name.endswith("seconds") and isinstance(value, str) and CLOCK.fullmatch(value.strip()):
            *longer, seconds = value.split(":")
            return sum((60.0**power * float(part) for power, part in enumerate([seconds, *reversed(longer)])), 0.0)
        return float(value)
    except (ValueError, OverflowError):
        return None


def source_of(metrics: Mapping) -> str:
    """Return what messages call the text or file that is read."""
    return f"the file {file}" if (file := metrics_file(metrics)) else "its output"


def shown(text: str) -> str:
    """Return a text in quotes, shortened, without what a terminal would obey."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")
