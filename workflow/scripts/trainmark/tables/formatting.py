"""Formats numbers for people, and gives the word that stands in place of a missing number."""

import re
from collections.abc import Iterable, Mapping

import pandas as pd

from trainmark.records.sentences import format_loss

CENSORED = {"diverged": "diverged", "out_of_memory": "out of memory"}
"""The statuses of censored runs, which are counted but enter no median, each in words."""


def three_digits(value: float) -> str:
    """Format a number to 3 digits, or as a whole number with separators if it has more."""
    return f"{value:#.3g}" if value < 99.95 else f"{value:,.0f}"


_FORMATS = (
    (r".*_loss", format_loss),
    (r".*_accuracy", lambda value: f"{100 * value:.2f} %"),
    (r".*_share|phase_shares\..*", lambda value: f"{100 * value:.1f} %"),
    (r".*_mib|resumes", "{:.0f}".format),
    (r"scored_texts\..*", "{:.4f}".format),  # probabilities
    (r"phases\..*", lambda value: three_digits(value) if value >= 0.1 else f"{value:.3f}"),  # most are near 0
    (r".*", three_digits),  # seconds, joules, samples a second
)
"""How a number is formatted, by a pattern of its metric's name; the first pattern that matches counts."""


def format_figure(metric: str, value: float) -> str:
    """Format a value of a metric: times to 3 digits, accuracies in percent, losses to 4 decimals (or 4 digits)."""
    return next(form(value) for pattern, form in _FORMATS if re.fullmatch(pattern, metric))


def format_ratio(value: float) -> str:
    """Format a ratio to 3 digits, or to more if it would be rounded to 1: a verdict depends on the side of 1."""
    texts = [f"{value:#.{digits}g}" for digits in range(3, 8)]
    return three_digits(value) if value >= 99.95 else next((t for t in texts if float(t) != 1 or value == 1), texts[-1])


INTERVALS = {"median": "runs from", "trimmed_mean": "one standard deviation from"}
"""What `low` and `high` are of a statistic of the tidy table; of the others, the ends of a 95 % interval."""


def format_number(row: Mapping, value: float) -> str:
    """Format a value of a row of the tidy table, or a bound of it, without its unit; a share in percent."""
    is_ratio = row["unit"] == "1" and row["statistic"] != "median"
    return format_ratio(value) if is_ratio else format_figure(row["metric"], value).removesuffix(" %")


def unit_in_words(row: Mapping) -> str:
    """The unit of a number of the tidy table as it is printed: "s", "%", or "" for a ratio."""
    unit: str = row["unit"]
    return {"1": "", "share": "%"}.get(unit, unit)


def number_in_words(row: Mapping) -> str:
    """A number of the tidy table with its unit, its interval, and whether it is of disturbed runs alone.

    "0.810 (95 % interval 0.790 to 0.830)", or "1.49 s (of disturbed runs, runs from 1.46 to 1.54)".
    """
    value, low, high = (
        None if row[name] is None else format_number(row, row[name]) for name in ("value", "low", "high")
    )
    interval = INTERVALS.get(row["statistic"], "95 % interval")
    range_ = "" if None in (low, high) else f"{interval} {low} to {high}"
    about = ", ".join(filter(None, ("of disturbed runs" if row["disturbed_times"] else "", range_)))
    return " ".join(filter(None, (value, unit_in_words(row), f"({about})" if about else "")))


def why_absent(statuses: Iterable[str]) -> str:
    """The text in place of a missing number: why all of these runs are censored, or "not measured" if one is ok."""
    occurring = set(statuses)
    if "ok" in occurring:
        return "not measured"
    return " or ".join(word for status, word in CENSORED.items() if status in occurring)


def status_counts(statuses: Iterable[str]) -> str:
    """Count the runs of each status: "47 ok, 2 diverged". The ok ones are always named, the others only if any."""
    listed = list(statuses)
    counts = [f"{listed.count(status)} {word}" for status, word in CENSORED.items() if status in listed]
    return ", ".join([f"{listed.count('ok')} ok", *counts])


LASTING = (
    "test_loss", "test_accuracy", "test_top5_accuracy", "train_loss", "train_accuracy", "peak_host_mib",
    "peak_device_mib",
)  # fmt: skip
"""The metrics that a disturbance does not change, besides the scores of texts."""


def is_lasting(metric: str) -> bool:
    """Whether a disturbance leaves a metric as it is."""
    return metric in LASTING or metric.startswith("scored_texts.")


DISTURBED_MARK = "*"
"""Stands behind a number that disturbed runs alone were measured for."""

DISTURBED_NOTE = f"{DISTURBED_MARK} of disturbed runs alone: it holds the time that something else took"
"""The note below a table or a figure that has the mark."""


def summary_figure(row: Mapping, metric: str, statistic: str) -> str:
    """Format a number of the summary, or give the word in its place. statistic: "median", "min" or "max"."""
    value = row[f"{metric}_{statistic}"]
    if not pd.isna(value):
        mark = DISTURBED_MARK if row["disturbed_times"] and not is_lasting(metric) else ""
        return format_figure(metric, value) + mark
    censored = [status for status in CENSORED if row[status]]
    return why_absent(["ok"] if row["runs"] > sum(row[status] for status in censored) else censored)


def censored_counts(row: Mapping) -> str:
    """Count the runs of a row of the summary that are censored, disturbed or waited: "1 of 3 diverged"; "" for none."""
    words = CENSORED | {"disturbed": "disturbed", "waited": "waited for data"}
    counts = [f"{row[status]} of {row['runs']} {word}" for status, word in words.items() if row[status]]
    return ", ".join(counts)


def number_ranges(numbers: Iterable[int]) -> str:
    """Format integers as ranges: "1-3, 7"."""
    ordered = sorted(set(numbers))
    starts = [number for number in ordered if number - 1 not in set(ordered)]
    ends = [number for number in ordered if number + 1 not in set(ordered)]
    return ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True)
    )


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
