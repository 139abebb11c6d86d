"""The report's small tables: published results, break-even, time to accuracy, and shares of the peak."""

from collections.abc import Mapping
from math import isnan

import pandas as pd

from trainmark.report.cells import Cell, break_even_cells, end_text, numbers_of, summary_cells, value_or_none
from trainmark.tables.formatting import counted, format_figure
from trainmark.tables.peaks import MACHINE, PEAK_METRICS, machine_peaks, with_machine
from trainmark.tables.published import counts_within
from trainmark.tables.results import Results
from trainmark.tables.tables import (
    HEADINGS,
    groups,
    longest_runs,
    rows_of,
    select_group,
    select_trainer,
    shown_of_trainers,
    summary_table,
    with_names,
)
from trainmark.trainer import Trainer


def further_tables(results: Results, group: tuple[str, str, str], numbers: Mapping[str, int]) -> list[dict]:
    """The tables of a section that have rows: title, caption, file, headings, and rows of texts and cells; a table may
    have sentences before it, its lead.

    numbers: the number of each run, by its id.
    """
    longest = longest_runs(select_group(results.runs, group))
    found = [
        _published(select_group(results.published, group), numbers),
        _break_even(select_group(results.break_even, group), numbers),
        _targets(results, group),
        _machine_peaks(results.runs, longest),
        _peak_shares(longest, shown_of_trainers(results.runs)),
    ]
    return [table for table in found if table["rows"]]


def _published(table: pd.DataFrame, numbers: Mapping[str, int]) -> dict:
    rows = []
    for (source, epochs, metric), own in groups(table, ["source", "epochs", "metric"]):
        run_numbers = numbers_of(" ".join(own["run_ids"]), numbers)
        cells = [
            Cell(
                _text(metric, value, "diverged"),
                run_numbers,
                metric,
                f"published_{name}_{epochs}",
                value_or_none(value),
            )
            for name, value in (("smallest", own["smallest"].min()), ("largest", own["largest"].max()))
        ]
        heading = HEADINGS.get(metric, "training time, ratio")
        texts = [source, str(epochs), heading, _text(metric, own["published"].iloc[0])]
        rows.append({"runs": run_numbers, "texts": texts, "cells": cells, "last": _within(own)})
    return {
        "title": "Published results",
        "caption": "What others published, and the smallest and largest number of ours after as many epochs, in the "
        "runs of all trainers. A ratio of times is to the source's fewest epochs. Within: the published number, up to "
        "its rounding, is in the range of a trainer's runs.",
        "lead": counts_within(table),
        "file": "published.csv",
        "headings": ["published by", "epochs", "metric", "published", "smallest", "largest", "within"],
        "rows": rows,
    }


def _text(metric: str, value: float, otherwise: str = "not a number") -> str:
    return otherwise if isnan(value) else format_figure(metric, value)


def _within(of_trainers: pd.DataFrame) -> str:
    """In how many trainers a published number lies within, and which experiment explains it if in none."""
    count = (of_trainers["within"] == "yes").sum()
    if count == len(of_trainers) or (of_trainers["within"] == "").all():
        return str(of_trainers["within"].iloc[0])
    explained = next((f"; explained by {text}" for text in of_trainers["explained_by"] if text), "")
    return (f"in {count} of {counted(len(of_trainers), 'trainer')}" if count else "no") + explained


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
    runs = with_names(longest_runs(select_group(results.runs, group)))
    rows, columns = [], shown_of_trainers(results.runs)
    for row in rows_of(with_names(select_group(results.targets, group))):
        own = select_trainer(runs, Trainer.of(row))
        numbers = " ".join(str(number) for number in own["number"])
        cells = [
            Cell(str(row["reached"]), numbers, "target_seconds", "target_reached", row["reached"]),
            *(
                Cell(end_text(row[name], "not reached"), numbers, "target_seconds", f"target_{name}", row[name])
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


def _machine_peaks(runs: pd.DataFrame, longest: pd.DataFrame) -> dict:
    """The peaks of the machines that trained the longest runs, from all runs of the campaign on them."""
    peaks = machine_peaks(runs).merge(with_machine(longest)[MACHINE].drop_duplicates(), on=MACHINE)
    rows = []
    for row in rows_of(peaks):
        cells = [
            Cell(format_figure(name, row[name]), str(row[number]), name, "value", row[name])
            for name, number in (("peak_gflop_per_second", "number"), ("memory_gb_per_second", "memory_number"))
        ]
        texts = [row["machine"], row["device"], str(row["threads"]), str(row["workers"])]
        rows.append({"runs": cells[0].runs, "texts": texts, "cells": cells, "last": row["framework"]})
    return {
        "title": "Peak of the machine",
        "caption": "The fastest product of matrices (float32) and the largest memory bandwidth (STREAM's add) that a "
        "run of the campaign measured on the machine, after its training.",
        "file": "runs.parquet",
        "headings": ["machine", "device", "threads", "workers", "peak, GFLOP/s", "memory, GB/s", "peak by"],
        "rows": rows,
    }


def _peak_shares(longest: pd.DataFrame, columns: list[str]) -> dict:
    metrics = [name for name in PEAK_METRICS if name != "memory_gb_per_second"]
    measured = longest[longest["peak_gflop_per_second"].notna()]
    rows = [
        {
            "runs": row["run_numbers"],
            "texts": [row[key] for key in columns],
            "cells": list(summary_cells(row, metrics, ["median"])),
            "last": str(row["epochs"]),
        }
        for row in (rows_of(summary_table(measured, metrics)) if len(measured) else [])
    ]
    return {
        "title": "Share of the peak",
        "caption": "Floating-point operations of the network's training per second of a steady epoch, and their share "
        "of the product of matrices: that of the run's own framework, and the largest of any on the machine. Medians "
        "over the runs with the most epochs. The rest is time for other operations, for calls, and for memory. A share "
        "can exceed 100 %, because some algorithms for convolutions need fewer operations than are counted.",
        "file": "summary.csv",
        "headings": [*columns, *(PEAK_METRICS[name] for name in metrics), "epochs"],
        "rows": rows,
    }
