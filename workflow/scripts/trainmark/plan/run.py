"""A run (one cell of an experiment's matrix) and the paths of its files."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from trainmark.recipes.command import DATASET
from trainmark.trainer import Trainer

OF_TRAINER = "{experiment}/{recipe}/{dataset}/{trainer}"
"""Path of what there is for each trainer of a group: its runs, trace, timing and cross-evaluation, and their logs."""


RUN_FOLDER = OF_TRAINER + "/epochs-{epochs}/repeat-{repeat}"
"""Folder of a run's record under results/runs; also the run's id."""


def group_title(recipe: str, dataset: str) -> str:
    """Return the title of a group: "mnist-mlp-keras on digits", or "train-py, a command"."""
    return f"{recipe}, a command" if dataset == DATASET else f"{recipe} on {dataset}"


def trainer_in(wildcards: Any) -> Trainer | None:
    """Return the trainer of a job, by its wildcards; None if it has none.

    A check of a GPU has a framework and a device as wildcards.
    """
    if written := wildcards.get("trainer"):
        return Trainer.parse(str(written))
    framework = wildcards.get("framework")
    return Trainer(framework, wildcards.get("device")) if framework else None


@dataclass(frozen=True)
class Run:
    """One training: a cell of an experiment's matrix."""

    experiment: str
    recipe: str
    dataset: str
    trainer: Trainer
    epochs: int
    repeat: int

    @cached_property
    def id(self) -> str:
        """The id of the run, which is also its folder under results/runs."""
        return RUN_FOLDER.format_map(vars(self))

    @property
    def values(self) -> dict[str, Any]:
        """The run in a record: its id and its parts, in place of the trainer the parts of the trainer."""
        values = {"id": self.id, **vars(self), **self.trainer._asdict()}
        del values["trainer"]
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Run":
        """Return the run of a record, by its `values`."""
        parts = {**values, "trainer": Trainer.of(values)}
        return cls(**{field.name: parts[field.name] for field in fields(cls)})


def of_trainer(run: Any) -> str:
    """Return the path of what a trainer has in a group (OF_TRAINER), from a run or from wildcards."""
    return f"{run.experiment}/{run.recipe}/{run.dataset}/{run.trainer}"
