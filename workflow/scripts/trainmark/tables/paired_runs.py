"""Pairs of runs that differ only in their trainer, and so have the same initial weights and the same batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.recipes.command import FRAMEWORK
from trainmark.records.step_losses import step_losses
from trainmark.tables.tables import group_of
from trainmark.trainer import Trainer


@dataclass(frozen=True)
class PairedRuns:
    """The pairs of runs of two trainers with one number of epochs and status ok; at least one.

    run_ids: the two runs of each pair.
    losses: of each epoch the losses of its steps, (2 trainers, pairs, steps).
    """

    run_ids: list[tuple[str, str]]
    losses: list[np.ndarray]


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


def relative_differences(losses: np.ndarray) -> np.ndarray:
    """Return (first - second) / the larger of both, for losses (2, ...); 0 for two zeros."""
    larger = losses.max(axis=0)
    differences: np.ndarray = np.divide(losses[0] - losses[1], larger, out=np.zeros_like(larger), where=larger > 0)
    return differences


def _paired(pairs: Sequence[tuple[Mapping, Mapping]]) -> PairedRuns:
    curves = [[run["curves"] for run in of_trainer] for of_trainer in zip(*pairs, strict=True)]
    losses = [
        np.array([[step_losses(entries[epoch]) for entries in of_trainer] for of_trainer in curves], np.float64)
        for epoch in range(len(curves[0][0]))
    ]
    return PairedRuns([(first["run"]["id"], second["run"]["id"]) for first, second in pairs], losses)
