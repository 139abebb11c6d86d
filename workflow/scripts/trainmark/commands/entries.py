"""What a command reports: the lines of its text, and the numbers in them."""

import codecs
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

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Entry:
    """What a command reports of one epoch.

    values: by metric. seen: when the report was seen, on the clock of `time.monotonic`; None if unknown.
    """

    values: Mapping[str, float]
    seen: float | None


def lines_of(chunks: Chunks) -> Iterator[tuple[float | None, str]]:
    """Yield the lines of a text without terminal codes, each with the time at which its end was seen."""
    rest = ""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    for seen, data in chunks:
        *complete, rest = LINE_ENDS.split(rest + decoder.decode(data))
        yield from ((seen, ANSI_CODES.sub("", line)) for line in complete if line)
    if rest and chunks:
        yield chunks[-1][0], ANSI_CODES.sub("", rest)


def equal(first: float, second: float) -> bool:
    """Whether two values are one report. NaN equals NaN."""
    return str(first) == str(second)


def numbers_of(metrics: Mapping, found: Mapping[str, Any], where: str) -> dict[str, float]:
    """Convert what was found to numbers, accuracies to shares of 1. Raises CommandError for anything else."""
    numbers = {}
    for name, value in found.items():
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise CommandError(
                f"{source_of(metrics)} has {shown(str(value))} as {name}, which is no number, in {where}"
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


def shown(text: str) -> str:
    """Return a text in quotes, shortened, without what a terminal would obey."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")
