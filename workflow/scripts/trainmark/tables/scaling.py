"""How many times as fast are several workers? From the comparisons of trainers that differ in their workers alone."""

from collections.abc import Iterator

import pandas as pd

from trainmark.recipes.command import DATASET
from trainmark.tables.comparisons import COMPARED
from trainmark.tables.tables import GROUP, SETTING, rows_of, timed_runs
from trainmark.trainer import Trainer
from trainmark.variant import NAMED_AFTER

ESTIMATES = ("speed_up", "low", "high")
"""The speed-up, and the ends of its 95 % interval."""

EFFICIENCIES = ("efficiency", "efficiency_low", "efficiency_high")

COMMUNICATION = {"communication_share": "median", "communication_min": "min", "communication_max": "max"}
"""The share of communication in the time of a step, and its range over the repeats."""

COLUMNS = [
    *GROUP, "epochs", "framework", "device", "loop", "workers", "of_workers", "scaling", "metric", "pairs", *ESTIMATES,
    *EFFICIENCIES, "batch_size", "samples_per_second", *COMMUNICATION, "verdict", "parity",
]  # fmt: skip


def scaling_table(comparisons: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Make the table of speed-ups: a row per number of epochs, number of workers and metric of a trainer.

    All are over the fewest workers that the trainer was compared with. Columns are in docs/columns.md; `verdict` is on
    the second trainer of the comparison.

    comparisons, runs: those of trainers, of variants (`variants.runs_of_variants`), or both.
    """
    columns = {name: ("communication_share", function) for name, function in COMMUNICATION.items()}
    of_settings = (
        timed_runs(runs)
        .groupby(SETTING)
        .agg(batch_size=("batch_size", "first"), samples_per_second=("samples_per_second", "median"), **columns)
        .reset_index()
    )
    rows = pd.DataFrame(_rows(comparisons, of_settings), columns=COLUMNS)
    rows = rows.astype(dict.fromkeys((*ESTIMATES, *EFFICIENCIES, "samples_per_second", *COMMUNICATION), "float64"))
    same = [*GROUP, "epochs", "framework", "device", "loop", "scaling", "metric"]
    return rows[rows["of_workers"] == rows.groupby(same)["of_workers"].transform("min")].reset_index(drop=True)


def _rows(comparisons: pd.DataFrame, of_settings: pd.DataFrame) -> Iterator[dict]:
    values = {tuple(row[key] for key in SETTING): row for row in rows_of(of_settings)}
    for row in rows_of(comparisons[comparisons["metric"].isin(COMPARED)]):
        if row["dataset"] == DATASET:  # of a command
            continue
        fewer, more = sorted((Trainer.named(row[side]) for side in ("first", "second")), key=lambda one: one.workers)
        trainer = without_variant(more)
        if without_variant(fewer)._replace(workers=more.workers) != trainer or fewer.workers == more.workers:
            continue
        of_fewer, of_more = (values[*(row[key] for key in GROUP), *one, row["epochs"]] for one in (fewer, more))
        factor, larger = more.workers / fewer.workers, of_more["batch_size"] / of_fewer["batch_size"]
        if larger not in (1, factor):
            continue
        estimates = [row[name] for name in ("ratio", "low", "high")]
        if row["second"] == more.name:  # the ratio is that of the more workers to the fewer
            ratio, low, high = (None if value is None else 1 / value for value in estimates)
            estimates = [ratio, high, low]
        estimates += [None if value is None else value / factor for value in estimates]
        yield {
            **{key: row[key] for key in (*GROUP, "epochs", "metric", "pairs", "verdict", "parity")},
            **{key: of_more[key] for key in ("batch_size", "samples_per_second", *COMMUNICATION)},
            **trainer._asdict(),
            "of_workers": fewer.workers,
            "scaling": "strong" if larger == 1 else "weak",
            **dict(zip((*ESTIMATES, *EFFICIENCIES), estimates, strict=True)),
        }


def without_variant(trainer: Trainer) -> Trainer:
    """Return the trainer that trains a variant, from one that is named after it."""
    return trainer._replace(framework=trainer.framework.partition(NAMED_AFTER)[0])
