"""Estimates of how long runs take: from the records of similar runs or, without any, from networks and machine."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainmark.console import in_words
from trainmark.datasets.catalogue import sample_shape
from trainmark.networks.layers import training_flops
from trainmark.plan.audits import PlannedRuns
from trainmark.plan.matrix import certified_groups
from trainmark.plan.products import RESULTS
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import merged_input, seen_shape

CPUS_OF_A_RUN = 2
"""The CPUs that rules ask for a run by default."""

SHARES_OF_PEAK = (0.6, 0.05)
"""The share of a CPU's peak that trainings reach, from large to small networks. A choice: on two quiet CPUs, Chainer's
MNIST MLP reaches .31 in Chainer and .62 in Keras on JAX, and networks of a few thousand weights .02 to .2."""

SECONDS_BESIDE_EPOCHS = (3.0, 15.0)
"""The time of a run on the CPU for start, imports, building and compilation."""

SECONDS_OF_A_TRACE = (5.0, 30.0)
"""The time for the trace of a trainer and its evaluation of another one's weights."""

SECONDS_OF_THE_REPORT = 15.0


def busy_seconds_of(record: Mapping) -> float:
    """The seconds that a run took, without the wait for its device."""
    return float(record["wall_seconds"] - record["phases_seconds"]["device_wait"])


class RunTimes:
    """The times of runs that are done, by which those of similar runs are estimated."""

    def __init__(self) -> None:
        # For similar runs: their number, and the sums of their seconds without epochs and per epoch. Sums, and not the
        # runs themselves, because a forecast is made after each of thousands of runs.
        self._done: dict[tuple[str, ...], tuple[int, float, float]] = {}

    def add(self, record: Mapping) -> float:
        """Add the record of a run. Returns the seconds that the run took, without the wait for its device."""
        run, trained_seconds = vars(Run.of(record["run"])), record["result"]["training_seconds"]
        busy_seconds = busy_seconds_of(record)
        pace = (trained_seconds or 0.0) / run["epochs"]
        for key in _keys(run):
            count, other_seconds, paces = self._done.get(key, (0, 0.0, 0.0))
            self._done[key] = count + 1, other_seconds + busy_seconds - run["epochs"] * pace, paces + pace
        return busy_seconds

    def seconds(self, run: Mapping[str, Any], least_alike: int = 3) -> float | None:
        """Estimate the time of a run: the mean of the most similar runs, each corrected for its number of epochs.

        least_alike: how unlike the runs may be: 1 for those of the same trainer, recipe and dataset; 2 for any trainer;
            3 for any run.
        """
        key = next((key for key in _keys(run)[:least_alike] if key in self._done), None)
        if key is None:
            return None
        count, other_seconds, paces = self._done[key]
        return (other_seconds + int(run["epochs"]) * paces) / count


def _keys(run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the keys under which similar runs are found, the most similar first."""
    recipe, dataset, trainer = run["recipe"], run["dataset"], str(run["trainer"])
    return [(recipe, dataset, trainer), (recipe, dataset), ()]


class Forecast:
    """An estimate of the time that the remaining runs of a call take, from the records of those that are done."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._busy_seconds = 0.0
        self._times = RunTimes()

    def add(self, record: Mapping) -> None:
        """Add the record of a run that this call trained."""
        self._start = self._start or time.monotonic() - record["wall_seconds"]
        self._busy_seconds += self._times.add(record)

    def seconds_left(
        self, runs: Iterable[Mapping[str, str]], running: Iterable[tuple[Mapping[str, str], float]]
    ) -> float | None:
        """Estimate the remaining time in seconds; None before the first run is done.

        runs: the runs that are not done, including the running ones.
        running: the running ones, each with the seconds since its start.
        """
        if self._start is None:
            return None
        left = sum(self._times.seconds(run) or 0.0 for run in runs)
        left -= sum(min(age, self._times.seconds(run) or 0.0) for run, age in running)
        at_once = self._busy_seconds / (time.monotonic() - self._start)
        return left / max(at_once, 0.1)


def estimate(config: Mapping, catalogue: Mapping, runs: Sequence[Run]) -> str:
    """Say how long a whole campaign takes on this machine, certificates and report included.

    Runs of a recipe, dataset and trainer that has records in the results folder take the time of these. Others are
    estimated from the operations of their network and the speed of a matrix product on this machine. Those of which
    neither is known are counted apart.
    """
    times, records = RunTimes(), 0
    for file in Path(RESULTS, "runs").rglob("record.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            times.add(json.loads(file.read_text(encoding="utf-8")))
            records += 1
    rate = None
    compared = {group: trainers for group, trainers in certified_groups(runs).items() if len(trainers) > 1}
    low = high = SECONDS_OF_THE_REPORT
    at_once = max((os.cpu_count() or 1) // CPUS_OF_A_RUN, 1)
    unknown: Counter[str] = Counter()
    for run in runs:
        of_alike = times.seconds(vars(run), least_alike=1)
        if of_alike is None:
            rate = rate or _matrix_flops_per_second() / at_once
            flops = _flops(run, config["experiments"][run.experiment], catalogue)
            if flops is None:
                of_training = f"{run.recipe} on {run.dataset} by {run.trainer.name}"
                unknown[f"the command {run.recipe}" if run.trainer.framework == FRAMEWORK else of_training] += 1
                continue
            shares = zip(SHARES_OF_PEAK, SECONDS_BESIDE_EPOCHS, strict=True)
            least, most = (beside + flops / (rate * share) for share, beside in shares)
        else:
            least = most = of_alike
        if (run.experiment, run.recipe, run.dataset) in compared:
            planned = PlannedRuns.of(config["experiments"][run.experiment])
            with_audits = 1 + planned.audits / planned.epochs  # an audit takes about as long as its epoch
            least, most = least * with_audits, most * with_audits
        low, high = low + least / at_once, high + most / at_once
    if len(runs) == unknown.total():
        return f"no estimate before the first run of {_first_of(unknown)}"
    traces = sum(map(len, compared.values()))
    low += traces * SECONDS_OF_A_TRACE[0] / at_once
    high += traces * SECONDS_OF_A_TRACE[1] / at_once
    known_by = f"{records} record{'s' if records > 1 else ''} in {RESULTS}"
    by = "by the operations of the networks" if rate else f"by {known_by}"
    span = " to ".join(dict.fromkeys(map(in_words, (low, high))))
    if not unknown:
        return f"about {span} on this machine, {by}"
    others = f"{unknown.total()} of {_first_of(unknown)}, whose time is not known yet"
    known = len(runs) - unknown.total()
    return f"about {span} for {known} run{'s' if known > 1 else ''} on this machine, {by}; plus {others}"


def _first_of(kinds: Iterable[str]) -> str:
    first, *others = kinds
    return f"{first} and others" if others else first


def _flops(run: Run, experiment: Mapping, catalogue: Mapping) -> float | None:
    """The floating-point operations of a run with its evaluations; None if they, or the device's speed, are unknown."""
    if run.trainer.framework == FRAMEWORK or run.trainer.device != "cpu":
        return None
    entry, recipe = catalogue[run.dataset], RECIPES[run.recipe]
    if not {"samples", "classes"} <= entry.keys():
        return None
    shape = seen_shape(merged_input(recipe.input, experiment["input"]), sample_shape(run.dataset, catalogue))
    of_sample = training_flops(recipe.architecture(shape, entry["classes"]))
    samples = entry["samples"]["train"] + sum(entry["samples"][split] for split in recipe.evaluated_splits) / 3
    return float(of_sample * samples * run.epochs)


def _matrix_flops_per_second() -> float:
    """The speed of a product of two float32 matrices on all CPUs: the best of three."""
    import numpy as np  # imported here, because a dry run has none

    side = 1024
    matrix = np.ones((side, side), np.float32)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - start)
    return float(2 * side**3 / min(seconds[1:]))
