"""Pairs runs that differ only in their trainer, and so have the same weights and batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.checks.records import group_of
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.step_losses import step_losses
from trainmark.trainer import Trainer


@dataclass(frozen=True)
class PairedRuns:
    """The pairs of runs of two trainers with one number of epochs and status ok; at least one.

    run_ids: the two runs of each pair.
    losses: of each epoch the losses of its steps, (2 trainers, pairs, steps).
    evaluations: of each evaluation of the test split the number of steps before it, and its losses, (2, pairs).
    """

    run_ids: list[tuple[str, str]]
    losses: list[np.ndarray]
    evaluations: list[tuple[int, np.ndarray]]


def by_trainer(records: Iterable[Mapping]) -> dict[tuple, dict[str, list[Mapping]]]:
    """Return the records of each trainer, by its name, of each (experiment, recipe, dataset). Commands are left out."""
    trainers: dict[tuple, dict[str, list[Mapping]]] = {}
    for record in (one for one in records if one["run"]["framework"] != FRAMEWORK):
        group = trainers.setdefault(group_of(record), {})
        group.setdefault(Trainer.of(record["run"]).name, []).append(record)
    return trainers


def paired_runs(first: Iterable[Mapping], second: Iterable[Mapping]) -> list[PairedRuns]:
    """Pair the records of two trainers, for each number of epochs, the smallest first."""
    first_runs, second_runs = (
        {(one["run"]["epochs"], one["run"]["repeat"]): one for one in records if one["status"] == "ok"}
        for records in (first, second)
    )
    pairs: dict[int, list[tuple[Mapping, Mapping]]] = {}
    for setting in sorted(first_runs.keys() & second_runs.keys()):
        pairs.setdefault(setting[0], []).append((first_runs[setting], second_runs[setting]))
    return [_paired(of_epochs) for of_epochs in pairs.values()]


def _paired(pairs: Sequence[tuple[Mapping, Mapping]]) -> PairedRuns:
    curves = [[run["curves"] for run in of_trainer] for of_trainer in zip(*pairs, strict=True)]
    losses = [
        np.array([[step_losses(entries[epoch]) for entries in of_trainer] for of_trainer in curves], np.float64)
        for epoch in range(len(curves[0][0]))
    ]
    tested = [[_test_losses(run) for run in of_trainer] for of_trainer in zip(*pairs, strict=True)]
    evaluations = [
        (step, np.array([[losses[step] for losses in of_trainer] for of_trainer in tested]))
        for step in sorted(set.intersection(*(set(losses) for of_trainer in tested for losses in of_trainer)))
    ]
    return PairedRuns([(first["run"]["id"], second["run"]["id"]) for first, second in pairs], losses, evaluations)


def _test_losses(run: Mapping) -> dict[int, float]:
    """Return the test losses of a run that is ok, by the number of steps trained before each."""
    steps = len(step_losses(run["curves"][0]))
    losses = {entry["epoch"] * steps: float(entry["evaluations"]["test"]["loss"]) for entry in run["curves"]}
    losses |= {one["step"]: float(one["loss"]) for one in run["step_evaluations"]}
    return losses | ({0: float(run["initial_evaluation"]["loss"])} if run["initial_evaluation"] else {})
