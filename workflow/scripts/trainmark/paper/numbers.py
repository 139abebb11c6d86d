"""Every number of a campaign by a key, as a paper writes it: from the tidy table, and from the table of runs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trainmark.errors import ConfigError
from trainmark.tables.formatting import format_number, listed, number_in_words, unit_in_words
from trainmark.tables.tables import GROUP, read_table, rows_of
from trainmark.tables.tidy import COMPARISONS
from trainmark.trainer import Trainer


@dataclass(frozen=True)
class Number:
    """A number.

    key: names it, such as "small/mnist-mlp-flux/digits/keras-jax-cpu/20/training_seconds/ratio/chainer-cpu".
    raw: its value in full; None if it is refused or withheld.
    value, low, high: as texts, without a unit; low and high are "" if it has no interval.
    unit: such as "s"; "%" for shares, which are in percent; "" for ratios and losses.
    words: the value with its unit and interval, and whether it is of disturbed runs.
    verdict: of a ratio; of a missing number, why it is missing.
    runs: how many runs, or pairs of runs, it comes from.
    source: the row of the table that it comes from, such as "tidy.csv:17".
    disturbed: whether it is a time, or a number from times, of disturbed runs alone.
    """

    key: str
    raw: float | str | None
    value: str = ""
    low: str = ""
    high: str = ""
    unit: str = ""
    words: str = ""
    verdict: str = ""
    runs: str = ""
    source: str = ""
    disturbed: bool = False


def numbers_of(tables: Path) -> Iterator[Number]:
    """Yield the numbers of a campaign, in the order of the tidy table. tables: the folder of the tables."""
    for line, row in enumerate(rows_of(read_table(tables / "tidy.csv")), start=2):
        ends = (row[name] for name in ("value", "low", "high"))
        value, low, high = ("" if end is None else format_number(row, end) for end in ends)
        yield Number(
            key_of(row),
            row["value"],
            value,
            low,
            high,
            unit_in_words(row),
            number_in_words(row),
            row["verdict"] or "",
            str(int(row["runs"])),
            f"tidy.csv:{line}",
            bool(row["disturbed_times"]),
        )
    for name, rows_in in COMPARISONS.items():
        for row in rows_in(read_table(tables / f"{name}.csv")):
            if row["value"] is None:
                yield Number(key_of(row), None, verdict=row["verdict"] or "", source=f"{name}.csv")
    yield from _of_machines(pd.read_parquet(tables / "runs.parquet"))


def _of_machines(runs: pd.DataFrame) -> Iterator[Number]:
    """Yield the texts on machines and versions."""
    facts = {"machine/cpu": runs["cpu_model"], "machine/gpu": runs["gpu"], "machine/threads": runs["threads"]}
    for key, column in facts.items():
        if known := list(column.dropna().unique()):
            text = listed(known)
            yield Number(key, text, text, words=text, source="runs.parquet")
    for name, version in versions_of(runs).items():
        yield Number(f"version/{name}", version, version, words=f"{name} {version}", source="runs.parquet")


def versions_of(runs: pd.DataFrame) -> dict[str, str]:
    """Return the versions of the packages that ran, by name; several of one package with "and"."""
    found: dict[str, dict[str, None]] = {"trainmark": dict.fromkeys(runs["trainmark"])}
    for text in filter(None, runs["versions"].unique()):
        for package in text.split(", "):
            name, _, version = package.rpartition(" ")
            found.setdefault(name, {})[version] = None
    return {name: listed(versions) for name, versions in found.items()}


def key_of(row: Mapping) -> str:
    """Return the key of a row: its setting, metric and, but for a median, its statistic, with what it is compared."""
    epochs = row["epochs"] and int(row["epochs"])  # a break-even has none, and pandas makes floats of the others
    parts: Iterable[object] = [*(row[name] for name in GROUP), Trainer.of(row), epochs, row["metric"]]
    statistic = None if row["statistic"] == "median" else row["statistic"]
    compared = row["compared_with"] and _in_path(row["compared_with"])
    named = [str(part) for part in [*parts, statistic, compared] if part]
    return "/".join(re.sub("[^A-Za-z0-9._-]+", "-", part).strip("-") for part in named)


def _in_path(name: str) -> str:
    """Return a trainer as in paths; with its recipe and dataset, as commands are compared, as it is."""
    try:
        return str(Trainer.named(name))
    except ConfigError:
        return name
