"""How far do the losses of the steps of trainers agree, in runs with the same initial weights and batches?"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from trainmark.tables.epoch_checks import ordered_epochs
from trainmark.tables.paired_runs import PairedRuns, by_trainer, paired_runs, relative_differences
from trainmark.tables.tables import GROUP

FIRST_STEPS = 100
"""Number of steps whose losses are compared one by one."""


def agreement_table(records: Mapping[str, Mapping]) -> pd.DataFrame:
    """How far the losses of the first steps agree between trainers; the columns are in docs/columns.md.

    With dropout there is no difference, because each framework draws its own masks. Runs that diverged or ran out of
    memory are left out.
    """
    rows = []
    for values, group in by_trainer(records.values()).items():
        for first, second in combinations(group, 2):
            paired = paired_runs(group[first], group[second])
            if paired:
                names = dict(zip(GROUP, values, strict=True)) | {"first": first, "second": second}
                rows.append(names | _agreement(paired, group[first][0]["network"]["dropout"]))
    columns = [*GROUP, "first", "second", "steps", "pairs", "median", "largest", "epochs", "ordered_epochs", "run_ids"]
    return pd.DataFrame(rows, columns=columns)


def _agreement(paired: Sequence[PairedRuns], dropout: bool) -> dict:
    first_steps = [np.concatenate(of_epochs.losses, axis=-1)[..., :FIRST_STEPS] for of_epochs in paired]
    of_pairs = np.concatenate([np.abs(relative_differences(losses)).max(axis=-1) for losses in first_steps])
    return {
        "steps": max(losses.shape[-1] for losses in first_steps),
        "pairs": sum(len(of_epochs.run_ids) for of_epochs in paired),
        "median": None if dropout else float(np.median(of_pairs)),
        "largest": None if dropout else float(of_pairs.max()),
        "epochs": len(paired[-1].losses),
        "ordered_epochs": ordered_epochs(paired[-1].losses),
        "run_ids": " ".join(run_id for of_epochs in paired for pair in of_epochs.run_ids for run_id in pair),
    }
