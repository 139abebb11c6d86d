"""How far do the losses of the first steps of trainers differ, in runs with the same initial weights and batches?"""

from itertools import chain, combinations, islice

import pandas as pd

from trainmark.plan.run import trainer_in, trainer_name
from trainmark.records.step_losses import step_losses
from trainmark.tables.statistics import largest_relative_difference, median_and_range
from trainmark.tables.tables import GROUP

FIRST_STEPS = 100
"""Number of steps whose losses are compared."""


def agreement_table(records: dict[str, dict]) -> pd.DataFrame:
    """How far the losses of the first steps differ between trainers.

    Compared are runs that differ only in their trainer, and so have the same initial weights and batches. The
    table has one row per experiment, recipe, dataset and pair of trainers. Of each pair of runs it takes the largest
    relative difference over the steps; "median" and "largest" are taken over the pairs of runs. `run_ids` lists the
    runs, pair by pair. Runs with dropout are left out, because each framework draws its own masks; so are runs that
    diverged or ran out of memory.
    """
    trainers: dict[tuple, dict[str, dict[tuple, tuple[str, list[float]]]]] = {}
    for record in records.values():
        run = record["run"]
        if record["status"] == "ok" and not record["settings"]["dropout"]:
            losses = list(islice(chain.from_iterable(map(step_losses, record["curves"])), FIRST_STEPS))
            group = trainers.setdefault(tuple(run[key] for key in GROUP), {})
            trainer = trainer_name(*trainer_in(run))
            group.setdefault(trainer, {})[(run["epochs"], run["repeat"])] = (run["id"], losses)
    rows = []
    for values, group in trainers.items():
        for first, second in combinations(group, 2):
            if group[first].keys() & group[second].keys():
                names = dict(zip(GROUP, values, strict=True)) | {"first": first, "second": second}
                rows.append(names | _agreement(group[first], group[second]))
    columns = [*GROUP, "first", "second", "steps", "pairs", "median", "largest", "run_ids"]
    return pd.DataFrame(rows, columns=columns)


def _agreement(first: dict[tuple, tuple[str, list[float]]], second: dict[tuple, tuple[str, list[float]]]) -> dict:
    """Compare two trainers by their runs. first, second: (run id, step losses) by (epochs, repeat)."""
    common = [key for key in first if key in second]
    compared = [largest_relative_difference(first[key][1], second[key][1]) for key in common]
    median, _, largest = median_and_range([difference for difference, _ in compared])
    return {
        "steps": max(steps for _, steps in compared),
        "pairs": len(common),
        "median": median,
        "largest": largest,
        "run_ids": " ".join(f"{first[key][0]} {second[key][0]}" for key in common),
    }
