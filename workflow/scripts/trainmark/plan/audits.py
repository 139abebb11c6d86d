"""Which weights are kept, and which runs are audited: an epoch of theirs is trained once more by another trainer."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Self

from trainmark.plan.run import Run
from trainmark.trainer import trainers_of

EPOCHS_OF_AN_AUDIT, MOST_AUDITS = 10, 2
"""Of so many epochs of a trainer one is audited, one at least, and so many at most. Two are of the first and the second
half of a run; more would take longer than the certificate."""


@dataclass(frozen=True)
class PlannedRuns:
    """All runs of a trainer in a group: their number, and the number of epochs of all of them."""

    count: int
    epochs: int

    @property
    def audits(self) -> int:
        """The number of these runs of which an epoch is audited."""
        return min(self.count, MOST_AUDITS, max(1, self.epochs // EPOCHS_OF_AN_AUDIT))

    @classmethod
    def of(cls, experiment: Mapping) -> Self:
        """Those of an experiment, by its settings."""
        repeats, epochs = experiment["repeats"], experiment["epochs"]
        return cls(repeats * len(epochs), repeats * sum(epochs))


def writes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Return whether a run of an experiment writes its trained weights (key `keep_weights`).

    `needed` means that something reads them: `predict` (recipes on texts), or another trainer of the experiment, which
    evaluates them.

    experiment: the settings of the experiment.
    on_texts: whether the recipe is on texts.
    """
    keep = experiment["keep_weights"]
    if keep == "needed":
        return on_texts or len(trainers_of(experiment)) > 1
    return bool(keep)


def removes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Return whether the weights of an experiment's runs are removed once another trainer has evaluated them."""
    return experiment["keep_weights"] == "needed" and not on_texts


def audited_epochs(run: Run, plan: Mapping) -> range:
    """Return the epochs of a run of which one is audited; none if the run isn't.

    The plan's secret chooses the audited runs among those with most epochs: the same repeats for all trainers of a
    group, so that paired runs are timed alike. Two audits are of different halves, so that one is of the last epochs.
    """
    experiment = plan["config"]["experiments"][run.experiment]
    runs = list(product(experiment["epochs"], range(1, experiment["repeats"] + 1)))
    group = f"{plan['secret']} {run.experiment}/{run.recipe}/{run.dataset}"
    runs.sort(key=lambda one: (-one[0], sha256(f"{group} {one}".encode()).digest()))
    audits = PlannedRuns.of(experiment).audits
    if (run.epochs, run.repeat) not in runs[:audits]:
        return range(0)
    parts = min(audits, run.epochs)
    part = runs.index((run.epochs, run.repeat)) % parts
    return range(run.epochs * part // parts + 1, run.epochs * (part + 1) // parts + 1)
