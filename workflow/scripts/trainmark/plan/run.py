"""A run: one cell of an experiment's matrix."""

from dataclasses import dataclass

RUN_FOLDER = "{experiment}/{recipe}/{dataset}/{framework}/{device}/epochs-{epochs}/repeat-{repeat}"
"""Where a run's record lies under results/runs; also the run's id."""


CERTIFICATE_FILE = "{experiment}/{recipe}/{dataset}.json"
"""Where the parity certificate of an experiment's recipe on a dataset lies under results/certificates."""


EVALUATION = "{experiment}/{recipe}/{dataset}/{framework}/{device}.json"
"""Where the evaluation by one trainer of the weights of another's runs lies under results/evaluations."""


def trainer_name(framework: str, device: str) -> str:
    """What a framework on a device is called."""
    return f"{framework} on {device}"


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
