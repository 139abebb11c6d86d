"""From a checked config to its runs. Standard library only: a dry run needs no framework."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

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


def devices_of(experiment: Mapping, gpu_found: bool) -> list[str]:
    """The devices of an experiment; "auto" is the CPU and, where one was found, the GPU."""
    if experiment["devices"] == "auto":
        return ["cpu", "gpu"] if gpu_found else ["cpu"]
    return list(experiment["devices"])


def _runs_of(name: str, experiment: Mapping, gpu_found: bool) -> Iterator[Run]:
    # Repeats turn slowest and frameworks fastest, so that a machine that slows down favours no framework.
    for repeat, epochs, recipe, dataset, device, framework in product(
        range(1, experiment["repeats"] + 1),
        experiment["epochs"],
        experiment["recipes"],
        experiment["datasets"],
        devices_of(experiment, gpu_found),
        experiment["frameworks"],
    ):
        yield Run(name, recipe, dataset, framework, device, epochs, repeat)


def expand_runs(config: Mapping, gpu_found: bool) -> list[Run]:
    """All runs of a checked config, experiment by experiment."""
    return [run for name, experiment in config["experiments"].items() for run in _runs_of(name, experiment, gpu_found)]
