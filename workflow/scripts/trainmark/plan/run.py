"""A run (one cell of an experiment's matrix) and the paths of its files."""

from dataclasses import dataclass

from trainmark.recipes.command import DATASET

RUN_FOLDER = "{experiment}/{recipe}/{dataset}/{framework}/{device}/epochs-{epochs}/repeat-{repeat}"
"""Folder of a run's record under results/runs; also the run's id."""


CERTIFICATE_FILE = "{experiment}/{recipe}/{dataset}.json"
"""Path of the parity certificate of a group under results/certificates."""


EVALUATION = "{experiment}/{recipe}/{dataset}/{framework}/{device}.json"
"""Path of a cross-evaluation under results/evaluations. framework and device: the trainer that evaluates."""


def group_title(recipe: str, dataset: str) -> str:
    """Return the title of a group: "mnist-mlp-keras on digits", or "train-py, a command"."""
    return f"{recipe}, a command" if dataset == DATASET else f"{recipe} on {dataset}"


def trainer_name(framework: str, device: str) -> str:
    """Return the name of a trainer, a framework on a device."""
    return f"{framework} on {device}"


def trainer_of(name: str) -> tuple[str, str]:
    """Return (framework, device) of the name of a trainer."""
    framework, _, device = name.rpartition(" on ")
    return framework, device


@dataclass(frozen=True)
class Run:
    """One training: a cell of an experiment's matrix."""

    experiment: str
    recipe: str
    dataset: str
    framework: str
    device: str
    epochs: int
    repeat: int

    @property
    def id(self) -> str:
        """The id of the run, which is also its folder under results/runs."""
        return RUN_FOLDER.format_map(vars(self))
