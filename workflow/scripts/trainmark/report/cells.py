"""The cells of the report's tables: each number with its text and the runs that it comes from."""

from collections.abc import Mapping
from typing import NamedTuple

from trainmark.tables.formatting import format_with_percent, value_text
from trainmark.tables.frames import ENDS

NO_RATIO = "\N{EN DASH}"
"""In place of a ratio or the end of an interval that there is not: the verdict beside it says why."""

STATISTICS = {"median": ("median", "min", "max"), "ratio": ("ratio", "low", "high")}
"""The names of a value and of its ends, by statistic; others have their own, with _low and _high."""


class Cell(NamedTuple):
    """One number in a table.

    text: what the page shows. runs: the numbers of the runs that it comes from. field: its name, "training_seconds".
    statistic: how it was computed from the runs, "median". value: the full value; None if it is missing.
    """

    text: str
    runs: str
    field: str
    statistic: str
    value: float | str | None


def cells_of(row: Mapping) -> dict[str, Cell]:
    """The cells of a row of the table of numbers, by column: its value and the ends of its interval, and of a ratio its
    counts of pairs and its verdict. Runs are listed pair by pair.
    """
    metric, statistic, runs = row["metric"], row["statistic"], row["run_numbers"]
    names = STATISTICS.get(statistic, (statistic, f"{statistic}_low", f"{statistic}_high"))
    texts = [NO_RATIO if row[end] is None else format_with_percent(row, row[end]) for end in ENDS]
    if statistic != "ratio" or row["value"] is not None:
        texts[0] = value_text(row)
    cells = {end: Cell(texts[i], runs, metric, names[i], row[end]) for i, end in enumerate(ENDS)}
    if statistic == "ratio":
        for column, name in (("runs", "pairs"), ("left_out", "left_out"), ("verdict", "verdict")):
            of = row["left_out_run_numbers"] if column == "left_out" else runs
            cells[column] = Cell(str(row[column]), of, metric, name, row[column])
    return cells
