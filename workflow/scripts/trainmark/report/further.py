"""The report's small tables: from how many epochs on is a trainer faster, and when is the target accuracy reached?"""

from collections.abc import Mapping
from math import isinf

import pandas as pd

from trainmark.plan.run import trainer_in
from trainmark.report.cells import Cell, break_even_cells
from trainmark.tables.formatting import format_figure
from trainmark.tables.results import Results
from trainmark.tables.tables import HEADINGS, longest_runs, rows_of, select_group, select_trainer, shown_of_trainers


def further_tables(results: Results, group: tuple[str, str, str], numbers: Mapping[str, int]) -> list[dict]:
    """The tables of a section that have rows: title, caption, file, headings, and rows of texts and cells.

    numbers: the number of each run, by its id.
    """
    found = [_break_even(select_group(results.break_even, group), numbers), _targets(results, group)]
    return [table for table in found if table["rows"]]


def _break_even(table: pd.DataFrame, numbers: Mapping[str, int]) -> dict:
    rows = []
    for row in rows_of(table):
        cells = break_even_cells(row, numbers)
        metric = HEADINGS.get(row["metric"], "wall time, s").removesuffix(", s")
        texts = [row["second"], row["first"], metric]
        last = row["faster_after"] or "none"
        rows.append({"runs": cells[0].runs, "texts": texts, "cells": cells, "last": last})
    return {
        "title": "Break-even",
        "caption": "The number of epochs at which both trainers take the same time, computed from the fixed part and "
        "the part per epoch of the runs with the most epochs. Low and high: its 95 % interval.",
        "file": "break_even.csv",
        "headings": ["trainer", "compared with", "time", "break-even, epochs", "low", "high", "faster after it"],
        "rows": rows,
    }


def _targets(results: Results, group: tuple[str, str, str]) -> dict:
    runs = longest_runs(select_group(results.runs, group))
    rows, columns = [], shown_of_trainers(results.runs)
    for row in rows_of(select_group(results.targets, group)):
        own = select_trainer(runs, trainer_in(row))
        numbers = " ".join(str(number) for number in own["number"])
        cells = [
            Cell(str(row["reached"]), numbers, "target_seconds", "target_reached", row["reached"]),
            *(
                Cell(_seconds(row[name]), numbers, "target_seconds", f"target_{name}", row[name])
                for name in ("seconds", "low", "high")
            ),
        ]
        texts = [*(row[key] for key in columns), format_figure("test_accuracy", row["target_accuracy"])]
        rows.append({"runs": numbers, "texts": texts, "cells": cells, "last": f"{row['runs']} runs"})
    return {
        "title": "Time to accuracy",
        "caption": "Training time until the target accuracy that the config set: median over the runs with the most "
        "epochs, and its 95 % interval. A run that did not reach it counts as longer.",
        "file": "targets.csv",
        "headings": [*columns, "target", "reached", "median, s", "low", "high", "of"],
        "rows": rows,
    }


def _seconds(value: float | None) -> str:
    if value is None:
        return "not reached"
    return "no end" if isinf(value) else format_figure("target_seconds", value)
