"""The cells of the report's tables: each number with its text and the runs that it comes from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isinf

import pandas as pd

from trainmark.tables.comparisons import INTERVAL
from trainmark.tables.formatting import format_figure, format_ratio, summary_figure, three_digits, why_absent

NO_RATIO = "\N{EN DASH}"
"""In place of a ratio or the end of an interval that there is not: the verdict beside it says why."""


@dataclass(frozen=True)
class Cell:
    """One number in a table, traceable to its runs.

    text: what the page shows; for a missing number, the reason.
    runs: numbers of the runs that it comes from, separated by spaces.
    field: the name of the quantity, such as "training_seconds".
    statistic: how it was computed from the runs, such as "median".
    value: the full value; None if the number is missing.
    certificate: file and number of the pair, for a number that comes from a certificate instead of runs.
    """

    text: str
    runs: str
    field: str
    statistic: str
    value: float | str | None
    certificate: str | None = None


def value_or_none(value: float) -> float | None:
    """A value as a cell has it."""
    return None if pd.isna(value) else value


def summary_cells(
    row: Mapping, metrics: Iterable[str], statistics: Iterable[str] = ("median", "min", "max")
) -> Iterator[Cell]:
    """The cells of a row of the summary: each of these statistics of each metric."""
    for metric in metrics:
        for statistic in statistics:
            text, value = summary_figure(row, metric, statistic), row[f"{metric}_{statistic}"]
            yield Cell(text, row["run_numbers"], metric, statistic, value_or_none(value))


def run_cell(run: Mapping, field: str) -> Cell:
    """The cell of one value of a run. run: a row of the table of runs."""
    value = value_or_none(run[field])
    text = why_absent([run["status"]]) if value is None else format_figure(field, value)
    return Cell(text, str(run["number"]), field, "value", value)


def comparison_cells(row: Mapping, numbers: Mapping[str, int]) -> dict[str, Cell]:
    """The cells of a row of the table of comparisons, by column; their runs are listed pair by pair.

    numbers: the number of each run, by its id.
    """
    metric = row["metric"]
    runs, left_out = (numbers_of(row[ids], numbers) for ids in ("run_ids", "left_out_run_ids"))
    cells = {
        "pairs": Cell(str(row["pairs"]), runs, metric, "pairs", row["pairs"]),
        "left_out": Cell(str(row["left_out"]), left_out, metric, "left_out", row["left_out"]),
        "verdict": Cell(row["verdict"], runs, metric, "verdict", row["verdict"]),
    }
    for name in INTERVAL:
        value = value_or_none(row[name])
        cells[name] = Cell(NO_RATIO if value is None else format_ratio(value), runs, metric, name, value)
    return cells


def break_even_cells(row: Mapping, numbers: Mapping[str, int]) -> list[Cell]:
    """The break-even of a row of the table of break-evens, and the ends of its interval."""
    runs = numbers_of(row["run_ids"], numbers)
    absent = {"epochs": "none", "low": "unknown", "high": "unknown"}
    return [
        Cell(end_text(row[name], word), runs, row["metric"], f"break_even_{name}", row[name])
        for name, word in absent.items()
    ]


def end_text(value: float | None, absent: str) -> str:
    """A number of epochs or seconds, which may be the end of an interval: missing or infinite."""
    if value is None:
        return absent
    return "no end" if isinf(value) else three_digits(value)


def agreement_cells(row: Mapping, numbers: Mapping[str, int]) -> list[Cell]:
    """The cells of a row of the table of agreement; their runs are listed pair by pair."""
    runs = numbers_of(row["run_ids"], numbers)
    texts = {name: str(row[name]) for name in ("steps", "pairs")}
    texts |= {name: "own masks" if row[name] is None else f"{row[name]:.2e}" for name in ("median", "largest")}
    texts["ordered_epochs"] = f"{row['ordered_epochs']} of {row['epochs']}"
    return [Cell(text, runs, "step_losses", name, row[name]) for name, text in texts.items()]


def numbers_of(run_ids: str, numbers: Mapping[str, int]) -> str:
    """The numbers of runs, as a cell has them. run_ids: as a table has them."""
    return " ".join(str(numbers[run_id]) for run_id in run_ids.split())
