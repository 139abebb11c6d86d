"""A run: one cell of an experiment's matrix. Standard library only (see matrix.py)."""

from dataclasses import dataclass

RUN_FOLDER = "{experiment}/{recipe}/{dataset}/{framework}/{device}/epochs-{epochs}/repeat-{repeat}"
"""Where a run's record lies under results/runs; also the run's id."""


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
        """The run's name, and its folder under results/runs."""
        return RUN_FOLDER.format_map(vars(self))
