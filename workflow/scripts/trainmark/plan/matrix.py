"""From a checked config to its runs. Standard library only: a dry run needs no framework."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod

from trainmark.errors import ConfigError
from trainmark.plan.run import Run

AXES = ("epochs", "recipes", "datasets", "devices", "frameworks")
"""The keys of an experiment that hold a list; with the repeats they span its matrix."""


def with_devices(config: Mapping, gpu_found: bool) -> dict:
    """The config with the devices of each experiment named: "auto" is the CPU and, where one was found, the GPU."""
    auto = ["cpu", "gpu"] if gpu_found else ["cpu"]
    experiments = {
        name: {**experiment, "devices": auto if experiment["devices"] == "auto" else experiment["devices"]}
        for name, experiment in config["experiments"].items()
    }
    _check_count(config, experiments)
    return {**config, "experiments": experiments}


def _check_count(config: Mapping, experiments: Mapping[str, Mapping]) -> None:
    """Raise ConfigError if the experiments have more runs than the config's max_runs."""
    counts = {
        name: experiment["repeats"] * prod(len(experiment[key]) for key in AXES)
        for name, experiment in experiments.items()
    }
    if (total := sum(counts.values())) > config["max_runs"]:
        most = max(counts, key=counts.__getitem__)
        raise ConfigError(
            f"experiments: {total:,} runs, {counts[most]:,} of them in {most}; allowed: at most {config['max_runs']:,} "
            "(max_runs in the config)"
        )


def _runs_of(name: str, experiment: Mapping) -> Iterator[Run]:
    repeats = range(1, experiment["repeats"] + 1)
    for repeat, epochs, recipe, dataset, device, framework in product(repeats, *(experiment[key] for key in AXES)):
        yield Run(name, recipe, dataset, framework, device, epochs, repeat)


def expand_runs(config: Mapping) -> list[Run]:
    """All runs of a config with its devices named, experiment by experiment: the order in which tables list them."""
    return [run for name, experiment in config["experiments"].items() for run in _runs_of(name, experiment)]


def certified_groups(runs: Iterable) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """The trainers, (framework, device), of each (experiment, recipe, dataset) that has two of them at the least.

    runs: Runs, or anything that has their attributes, as the rows of the table of runs.
    """
    trainers: dict[tuple[str, str, str], dict[tuple[str, str], None]] = {}
    for run in runs:
        trainers.setdefault((run.experiment, run.recipe, run.dataset), {})[run.framework, run.device] = None
    return {group: list(found) for group, found in trainers.items() if len(found) > 1}


def trained_order(runs: Iterable[Run], config: Mapping) -> list[Run]:
    """The runs in the order in which they are trained: a block for each repeat, mixed within by the experiments' seeds.

    Experiments, frameworks, devices and epoch settings are interleaved, so that a machine that slows down or warms up
    favours none of them; and runs of one repeat, which are compared with each other, lie near each other. The place
    in a block is that of SHA-256(seed, id): the same everywhere, and an experiment that is added changes no other's.
    """

    def place(run: Run) -> tuple[int, str]:
        seed = config["experiments"][run.experiment]["seed"]
        return run.repeat, hashlib.sha256(f"{seed}:{run.id}".encode()).hexdigest()

    return sorted(runs, key=place)
