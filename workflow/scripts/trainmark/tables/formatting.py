"""Formats numbers and lists for people, and gives the words that stand in place of a missing number."""

import re
from collections.abc import Iterable, Mapping
from math import isinf

import pandas as pd

from trainmark.records.sentences import format_loss

CENSORED = {"diverged": "diverged", "out_of_memory": "out of memory"}
"""The statuses of censored runs, which are counted but enter no median, each in words."""

NOT_MEASURED = "not measured"

NO_END = "no end"
"""In place of an end of an interval that is infinite."""

DISTURBED_MARK = "*"
"""Stands behind a number that disturbed runs alone were measured for."""

DISTURBED_NOTE = f"{DISTURBED_MARK} of disturbed runs alone: it holds the time that something else took"
"""The note below a table or a figure that has the mark."""


def three_digits(value: float) -> str:
    """Format a number to 3 digits, or as a whole number with separators if it has more."""
    return f"{value:#.3g}" if value < 99.95 else f"{value:,.0f}"


def format_ratio(value: float) -> str:
    """Format a ratio to 3 digits, or to more if it would be rounded to 1: a verdict depends on the side of 1."""
    texts = [f"{value:#.{digits}g}" for digits in range(3, 8)]
    return three_digits(value) if value >= 99.95 else next((t for t in texts if float(t) != 1 or value == 1), texts[-1])


RATIOS = ("ratio", "step_ratio", "speed_up", "strong_speed_up", "strong_efficiency", "weak_speed_up", "weak_efficiency")
"""The statistics that are ratios, whatever their metric."""

_FORMATS = (
    (f"({'|'.join(RATIOS)}) .*", format_ratio),
    (r"(count|reached) .*|.*(_mib|resumes|_programs)", "{:.0f}".format),
    (r"(break_even|trimmed_mean) .*", three_digits),
    (r".*_loss", format_loss),
    (r".*_accuracy", lambda value: f"{100 * value:.2f} %"),
    (r".*(_share| phase_shares\..*)", lambda value: f"{100 * value:.1f} %"),
    (r".* scored_texts\..*", "{:.4f}".format),  # probabilities
    (r".* phases\..*", lambda value: three_digits(value) if value >= 0.1 else f"{value:.3f}"),  # most are near 0
    (r".* step_losses", "{:.2e}".format),
    (r".*", three_digits),  # seconds, joules, samples a second
)
"""How a number is formatted, by a pattern of its statistic and its metric; the first pattern that matches counts."""

INTERVALS = {
    "median": "runs from",
    "published": "our runs from",
    "beside_published": "our runs from",
    "difference": "pairs of runs from",
    "trimmed_mean": "one standard deviation from",
}
"""What `low` and `high` are of a statistic; of the others, the ends of a 95 % interval."""


def format_figure(metric: str, value: float, statistic: str = "median") -> str:
    """Format a value of a metric: times to 3 digits, accuracies in percent, losses to 4 decimals (or 4 digits)."""
    return next(form(value) for pattern, form in _FORMATS if re.fullmatch(pattern, f"{statistic} {metric}"))


def format_with_percent(row: Mapping, value: float) -> str:
    """Format the value of a row of numbers, or an end of its interval or a bound of it; a share with its unit."""
    return NO_END if isinf(value) else format_figure(row["metric"], value, row["statistic"])


def format_number(row: Mapping, value: float) -> str:
    """The same, without a unit."""
    return format_with_percent(row, value).removesuffix(" %")


def unit_in_words(row: Mapping) -> str:
    """The unit of a number as it is printed: "s", "%", or "" for a ratio."""
    return str({"1": "", "share": "%"}.get(row["unit"], row["unit"]))


def number_in_words(row: Mapping) -> str:
    """A number with its unit, its interval, and whether it is of disturbed runs: "0.81 (95 % interval 0.79 to 0.83)",
    "1.49 s (of disturbed runs, runs from 1.46 to 1.54)", or "1.54 (4 of 8 pairs within bounds, 95 % interval ...)".
    """
    value, low, high = (None if row[end] is None else format_number(row, row[end]) for end in ("value", "low", "high"))
    end = f"{low} or more" if high == NO_END else f"{low} to {high}"
    range_ = "" if None in (low, high) else f"{INTERVALS.get(row['statistic'], '95 % interval')} {end}"
    of_disturbed = "of disturbed runs" if row["disturbed_times"] else ""
    about = ", ".join(filter(None, (of_disturbed or bounded_in_words(row), range_)))
    return " ".join(filter(None, (value, unit_in_words(row), f"({about})" if about else "")))


def bounded_in_words(row: Mapping) -> str:
    """How many pairs of a ratio have times within bounds: "4 of 8 pairs within bounds"; "" if none has."""
    return f"{row['bounded']} of {counted(row['runs'], 'pair')} within bounds" if row["bounded"] else ""


def value_text(row: Mapping) -> str:
    """The value of a row of numbers as tables show it, with a mark if it is of disturbed runs; or why it is missing."""
    if pd.isna(row["value"]):
        return absent_word(row["verdict"])
    return format_with_percent(row, row["value"]) + (DISTURBED_MARK if row["disturbed_times"] else "")


def with_interval(row: Mapping) -> str:
    """A ratio with its interval, if it has one: "1.10 (1.08 to 1.13)"; "" for none, whose verdict says why."""
    ends = [format_with_percent(row, row[end]) for end in ("value", "low", "high") if row[end] is not None]
    return f"{ends[0]} ({ends[1]} to {ends[2]})" if len(ends) > 1 else "".join(ends)


def absent_word(verdict: str) -> str:
    """The text shown in place of a missing number: "too few pairs", "refused", "diverged", ..."""
    return re.split(r" \(|:", verdict)[0]


def why_absent(statuses: Iterable[str]) -> str:
    """The text in place of a missing number: why all of these runs are censored, or NOT_MEASURED if one is ok."""
    occurring = {*statuses}
    words = [word for status, word in CENSORED.items() if status in occurring]
    return NOT_MEASURED if "ok" in occurring else " or ".join(words)


def troubled(runs: pd.DataFrame) -> str:
    """Count the runs of a setting that are censored, disturbed or waited: "1 of 3 diverged"; "" for none."""
    found = {word: runs["status"] == status for status, word in CENSORED.items()}
    found |= {"disturbed": runs["disturbed"] != "", "waited for data": runs["waited"] != ""}
    return ", ".join(f"{which.sum()} of {len(runs)} {word}" for word, which in found.items() if which.any())


def causes_in(texts: Iterable[str]) -> list[str]:
    """The causes of disturbances in texts such as "foreign load, interruption", each once; "" has none."""
    return list(dict.fromkeys(cause for text in texts if text for cause in text.split(", ")))


def number_ranges(numbers: Iterable[int]) -> str:
    """Format integers as ranges: "1-3, 7"."""
    known = {*numbers}
    starts, ends = (sorted(known - {number + step for number in known}) for step in (1, -1))
    return ", ".join(f"{first}-{last}" if first < last else f"{last}" for first, last in zip(starts, ends, strict=True))


def named_runs(numbers: Iterable[int]) -> str:
    """Name runs by their numbers: "run 3", "runs 1-3, 7"."""
    text = number_ranges(numbers)
    return f"run {text}" if text.isdigit() else f"runs {text}"


def format_versions(versions: Mapping[str, str]) -> str:
    """Format package versions: "chainer 7.8.1, numpy 2.4.6"."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def listed(things: Iterable[object]) -> str:
    """Join with commas and a last "and": "1, 2 and 3"."""
    *most, last = [str(thing) for thing in things]
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, thing: str) -> str:
    """A number with its noun: "1 epoch", "2 epochs"."""
    return f"{number:,} {thing}{'s' if number != 1 else ''}"
