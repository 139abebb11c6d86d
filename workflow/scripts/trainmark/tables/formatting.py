"""How figures are shown to people: rounded, or the word in the place of one that is absent."""

import re
from collections.abc import Iterable, Mapping

import pandas as pd

CENSORED = {"diverged": "diverged", "out_of_memory": "out of memory"}
"""The words of each status whose runs are counted, and enter no median."""


def _three_digits(value: float) -> str:
    return f"{value:#.3g}" if value < 99.95 else f"{value:.0f}"


_FORMATS = (
    (r".*_loss", lambda value: f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"),
    (r".*_accuracy", lambda value: f"{100 * value:.2f} %"),
    (r".*_mib|resumes", "{:.0f}".format),
    (r"scored_texts\..*", "{:.4f}".format),  # probabilities
    (r"phases\..*", lambda value: _three_digits(value) if value >= 0.1 else f"{value:.3f}"),  # most are near 0
    (r".*", _three_digits),  # seconds, joules, samples a second
)
"""How a figure is written, by a pattern of its name: the first that fits."""


def format_figure(metric: str, value: float) -> str:
    """A figure as people read it: times and huge losses to 3 or 4 digits, percent, losses to 4 decimals."""
    return next(form(value) for pattern, form in _FORMATS if re.fullmatch(pattern, metric))


def format_ratio(value: float) -> str:
    """A ratio to 3 digits; to more where else it would be shown as 1 and is not: a verdict hangs on its side of 1."""
    texts = [f"{value:#.{digits}g}" for digits in range(3, 8)]
    return (
        _three_digits(value) if value >= 99.95 else next((t for t in texts if float(t) != 1 or value == 1), texts[-1])
    )


def format_range(values: Iterable[float]) -> str:
    """Values by their range: "0.5", "0.1 to 2.3"."""
    found = list(values)
    return " to ".join(dict.fromkeys((f"{min(found):.1f}", f"{max(found):.1f}")))


def why_absent(statuses: Iterable[str]) -> str:
    """What stands in place of a figure of these runs that is not there: why they have none, or "not measured"."""
    found = set(statuses)
    return "not measured" if "ok" in found else " or ".join(CENSORED[status] for status in CENSORED if status in found)


def status_counts(statuses: Iterable[str]) -> str:
    """How many runs ended how: "47 ok, 2 diverged"; the ok are always told."""
    found = list(statuses)
    counts = [f"{found.count(status)} {word}" for status, word in CENSORED.items() if status in found]
    return ", ".join([f"{found.count('ok')} ok", *counts])


def statuses_of(row: Mapping) -> list[str]:
    """The statuses that occur among the runs of a row of the summary."""
    finished = row["runs"] - sum(row[status] for status in CENSORED)
    return ["ok"] * bool(finished) + [status for status in CENSORED if row[status]]


def summary_figure(row: Mapping, metric: str, statistic: str) -> str:
    """A figure of the summary as people read it, or the word in its place."""
    value = row[f"{metric}_{statistic}"]
    return why_absent(statuses_of(row)) if pd.isna(value) else format_figure(metric, value)


def censored_counts(row: Mapping) -> str:
    """How many runs of a row of the summary are disturbed, or not ok: "1 of 3 diverged"; "" where there are none."""
    words = CENSORED | {"disturbed": "disturbed"}
    counts = [f"{row[status]} of {row['runs']} {word}" for status, word in words.items() if row[status]]
    return ", ".join(counts)


def number_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words: "1-3, 7"."""
    ordered = sorted(set(numbers))
    starts = [number for number in ordered if number - 1 not in set(ordered)]
    ends = [number for number in ordered if number + 1 not in set(ordered)]
    return ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True)
    )


def named_runs(numbers: Iterable[int]) -> str:
    """Runs by their numbers: "run 3", "runs 1-3, 7"."""
    text = number_ranges(numbers)
    return f"run {text}" if text.isdigit() else f"runs {text}"


def format_versions(versions: Mapping[str, str]) -> str:
    """Versions of packages in words: "chainer 7.8.1, numpy 2.4.6"."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())
