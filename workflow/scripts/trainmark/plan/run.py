"""A run (one cell of an experiment's matrix) and the paths of its files."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from trainmark.recipes.command import DATASET

LOOPS = ("stock", "tuned")
"""How a framework may train. stock: as its own documentation does. tuned: as fast as its public interface allows, with
the same arithmetic."""

STOCK = LOOPS[0]

TRAINER = ("framework", "device", "loop")
"""What a trainer consists of: a framework on a device, with a loop. These are the keys in runs, records and tables."""

Trainer = tuple[str, str, str]
"""(framework, device, loop)."""


RUN_FOLDER = "{experiment}/{recipe}/{dataset}/{framework}/{device}/{loop}/epochs-{epochs}/repeat-{repeat}"
"""Folder of a run's record under results/runs; also the run's id."""


CERTIFICATE_FILE = "{experiment}/{recipe}/{dataset}.json"
"""Path of the parity certificate of a group under results/certificates."""


EVALUATION = "{experiment}/{recipe}/{dataset}/{framework}/{device}/{loop}.json"
"""Path of a cross-evaluation under results/evaluations. framework, device and loop: the trainer that evaluates."""


def group_title(recipe: str, dataset: str) -> str:
    """Return the title of a group: "mnist-mlp-keras on digits", or "train-py, a command"."""
    return f"{recipe}, a command" if dataset == DATASET else f"{recipe} on {dataset}"


def trainer_in(values: Mapping[str, Any]) -> Trainer:
    """Return the trainer of anything that has the keys TRAINER, such as the run of a record or the row of a table."""
    framework, device, loop = (values[key] for key in TRAINER)
    return framework, device, loop


def trainer_name(framework: str, device: str, loop: str) -> str:
    """Return the name of a trainer: "keras-jax on cpu", or "keras-jax tuned on cpu"."""
    return f"{framework}{'' if loop == STOCK else f' {loop}'} on {device}"


def trainer_of(name: str) -> Trainer:
    """Return the trainer that has this name."""
    trained_by, _, device = name.rpartition(" on ")
    framework, _, loop = trained_by.partition(" ")
    return framework, device, loop or STOCK


@dataclass(frozen=True)
class Run:
    """One training: a cell of an experiment's matrix."""

    experiment: str
    recipe: str
    dataset: str
    framework: str
    device: str
    loop: str
    epochs: int
    repeat: int

    @property
    def id(self) -> str:
        """The id of the run, which is also its folder under results/runs."""
        return RUN_FOLDER.format_map(vars(self))


RUN_OPTIONS = " ".join(f"--{field.name} {{{field.name}}}" for field in fields(Run))
"""The options by which a script gets its run, with wildcards."""

trainer_part = attrgetter(*(field.name for field in fields(Run) if field.name not in ("epochs", "repeat")))
"""Return what the runs of a trainer in a group have in common, from a run or from wildcards."""
