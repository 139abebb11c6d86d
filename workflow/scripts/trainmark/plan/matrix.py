"""Expand a checked config into its runs.

This module imports only the standard library, so that a dry run needs no framework.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from math import prod

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import DATASET, FRAMEWORK
from trainmark.trainer import KEYS, Trainer, trainers_of
from trainmark.variant import split_name

AXES = ("epochs", "recipes", "datasets", *KEYS)
"""The keys of an experiment that hold a list. The matrix is their product with the repeats."""


def asks_for_gpus(config: Mapping) -> bool:
    """Return whether an experiment has the device gpu or auto."""
    return any(one["devices"] == "auto" or "gpu" in one["devices"] for one in config["experiments"].values())


def with_devices(config: Mapping, gpu_found: bool) -> dict:
    """Resolve the devices of each experiment: "auto" is the CPU and, if a GPU was found, the GPU.

    Raises ConfigError if the experiments have more runs than the config's max_runs.
    """
    auto = ["cpu", "gpu"] if gpu_found else ["cpu"]
    experiments = {
        name: {**experiment, "devices": auto if experiment["devices"] == "auto" else experiment["devices"]}
        for name, experiment in config["experiments"].items()
    }
    _check_count(config, experiments)
    return {**config, "experiments": experiments}


def _check_count(config: Mapping, experiments: Mapping[str, Mapping]) -> None:
    """Raise ConfigError if the experiments have more runs than the config's max_runs."""
    counts = {name: _count(experiment) for name, experiment in experiments.items()}
    if (total := sum(counts.values())) > config["max_runs"]:
        most = max(counts, key=counts.__getitem__)
        raise ConfigError(
            f"experiments: {total:,} runs, {counts[most]:,} of them in {most}; allowed: at most {config['max_runs']:,} "
            "(max_runs in the config)"
        )


def _count(experiment: Mapping) -> int:
    trainings = prod(len(experiment[key]) for key in AXES)
    commands = len(experiment["epochs"]) * len(experiment["devices"]) * len(experiment["commands"])
    return int(experiment["repeats"] * (trainings + commands))


def _runs_of(name: str, experiment: Mapping) -> Iterator[Run]:
    repeats = range(1, experiment["repeats"] + 1)
    of_trainings = (repeats, *(experiment[key] for key in ("epochs", "recipes", "datasets")), trainers_of(experiment))
    for repeat, epochs, recipe, dataset, trainer in product(*of_trainings):
        yield Run(name, recipe, dataset, trainer, epochs, repeat)
    for repeat, epochs, command, device in product(
        repeats, experiment["epochs"], experiment["commands"], experiment["devices"]
    ):
        yield Run(name, command, DATASET, Trainer(FRAMEWORK, device), epochs, repeat)


def expand_runs(config: Mapping) -> list[Run]:
    """Return all runs of a config with resolved devices, experiment by experiment. Tables list them in this order."""
    return [run for name, experiment in config["experiments"].items() for run in _runs_of(name, experiment)]


def without_layers(runs: Iterable[Run]) -> dict[str, str]:
    """Return the runs whose network has layers that the framework's adapter lacks: why they are left out, by run id."""
    frameworks, ops = known_frameworks(), cache(lambda recipe: RECIPES[recipe].ops)
    found = {}
    for run in runs:
        layers = frameworks[run.trainer.framework].layers if run.trainer.framework != FRAMEWORK else ()
        if layers and (lacking := ops(run.recipe) - {*layers}):
            found[run.id] = f"{run.trainer.framework} has no layer {', '.join(sorted(lacking))} of {run.recipe}"
    return found


LEAST_PAIRS = 6
"""Fewer pairs of runs get no verdict: 5 values all lie on one side of their median in 2 / 2**5 = 6 % of cases."""


def why_no_verdict(name: str, experiment: Mapping) -> str:
    """Say why an experiment can get no verdict, whatever its runs show; empty if it can."""
    if len(trainers_of(experiment)) < 2 and not split_name(name)[1]:
        return "no verdict: commands are not ranked" if experiment["commands"] else "no verdict on one trainer"
    if experiment["repeats"] < LEAST_PAIRS:
        return f"no verdict, which needs {LEAST_PAIRS} repeats"
    return ""


def datasets_of(config: Mapping, catalogue: Mapping) -> list[str]:
    """Return the datasets of a config, with those that they take their classes from."""
    names = {name for experiment in config["experiments"].values() for name in experiment["datasets"]}
    names |= set(config["prepare"])
    return sorted(names | {catalogue[name]["of"] for name in names if "of" in catalogue[name]})


def certified_groups(runs: Iterable[Run]) -> dict[tuple[str, str, str], list[Trainer]]:
    """Return the trainers of each group that has at least two of them. Commands are not certified.

    The keys are (experiment, recipe, dataset), the values lists of trainers.
    """
    trainers: dict[tuple[str, str, str], dict[Trainer, None]] = {}
    for run in runs:
        if run.trainer.framework != FRAMEWORK:
            trainers.setdefault((run.experiment, run.recipe, run.dataset), {})[run.trainer] = None
    return {group: list(of_group) for group, of_group in trainers.items() if len(of_group) > 1}


def trained_order(runs: Iterable[Run], config: Mapping) -> list[Run]:
    """Return the runs in the order in which they are trained: one block per repeat, shuffled within each block.

    Experiments, trainers and numbers of epochs are interleaved, so that a machine that slows down or warms up favours
    none of them. Runs of the same repeat, which are compared with each other, are trained close in time. Within a block
    the runs are sorted by SHA-256 of the experiment's seed and the run's id. The order is therefore the same on every
    machine, and adding an experiment does not change the order of the other runs.
    """

    def sort_key(run: Run) -> tuple[int, str]:
        seed = config["experiments"][run.experiment]["seed"]
        return run.repeat, hashlib.sha256(f"{seed}:{run.id}".encode()).hexdigest()

    return sorted(runs, key=sort_key)
