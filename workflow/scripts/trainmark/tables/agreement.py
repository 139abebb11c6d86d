"""How far do the losses of runs agree that differ only in their trainer?"""

from collections.abc import Iterator, Mapping
from itertools import chain, combinations

import numpy as np

from trainmark.checks.epochs import ordered_epochs
from trainmark.checks.paired_runs import by_trainer, paired_runs
from trainmark.recipes.outputs import relative_differences
from trainmark.tables.frames import columns_of, number
from trainmark.trainer import Trainer

FIRST_STEPS = 100
"""Number of steps whose losses are compared one by one."""


def agreement_rows(records: Mapping[str, Mapping]) -> Iterator[dict]:
    """Yield how far the losses of the first steps agree between two trainers, as rows of numbers: the largest relative
    difference of a pair of runs (median, smallest and largest over the pairs), how many steps were compared, and in how
    many first epochs of all (`high`) another order of the batches would show.

    With dropout there is no difference, because each framework draws its own masks. Runs that diverged or ran out of
    memory are left out.
    """
    for values, group in by_trainer(records.values()).items():
        for first, second in combinations(group, 2):
            if not (paired := paired_runs(group[first], group[second])):
                continue
            first_steps = [np.concatenate(of_epochs.losses, axis=-1)[..., :FIRST_STEPS] for of_epochs in paired]
            found = np.concatenate([np.abs(relative_differences(*losses)).max(axis=-1) for losses in first_steps])
            pairs = list(chain.from_iterable(of_epochs.run_ids for of_epochs in paired))
            own = columns_of(values, Trainer.of(group[second][0]["run"])) | {"compared_with": first, "runs": len(pairs)}
            own["run_ids"] = list(chain.from_iterable(pairs))
            has_dropout = group[first][0]["network"]["dropout"]
            ends, absent = ((), "own masks") if has_dropout else ((np.median(found), found.min(), found.max()), "")
            yield number(own, "difference", "step_losses", "1", ends, verdict=absent)
            yield number(own, "count", "compared_steps", "1", [max(losses.shape[-1] for losses in first_steps)])
            last = paired[-1].losses
            yield number(own, "count", "ordered_epochs", "epochs", [ordered_epochs(last), None, len(last)])
