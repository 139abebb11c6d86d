"""Times each step from a framework's stock loop to its tuned loop, and chooses the number of threads of the tuned loop.

A process trains with the first steps and another one with one step more, in turn. No more than two are there at a time,
because each holds the data. A timing takes no longer than the runs that it is for: its turns are shortened, and if that
is not enough, nothing is timed.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from math import ceil, inf
from operator import attrgetter
from pathlib import Path
from typing import Any

from trainmark.console import in_words
from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.frameworks.tuning import TuningStep
from trainmark.loading.splits import open_splits
from trainmark.plan.audits import PlannedRuns
from trainmark.recipes.recipe import DTYPE
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.tuning import THREADS
from trainmark.trainer import STOCK, TUNED, Trainer
from trainmark.training.turns import Train, Trainee, in_turn

ROUNDS = 6
"""Turns of each of two processes. The verdicts need as many pairs (tables/paired.py). Fewer threads are chosen if they
are faster in all of them, which happens by chance in 1 of 64 cases."""

TURN_SECONDS = 1.0
"""A turn of the stock loop takes at least about this long: several epochs, one, or a part of one."""

LONGEST_EPOCH_SECONDS = 4.0
"""A turn is a whole epoch if the epoch of the stock loop takes at most this long; otherwise it is a part of one."""

REPEAT = 1
"""The repeat whose initial weights and batches are trained."""

LEAST_TURN_SECONDS = 0.25
"""Turns are shortened down to this, so that a timing takes no longer than the runs that it is for."""


@dataclass(frozen=True)
class Timed:
    """What is trained.

    trainer: the tuned one.
    mean_file, packed_folder: see `loading.splits.open_splits`.
    """

    trainer: Trainer
    training: ResolvedTraining
    dataset_folder: Path
    mean_file: Path | None
    packed_folder: Path | None

    def steps(self) -> list[TuningStep]:
        """The steps of the tuning that are taken here, in their order."""
        framework, streamed = known_frameworks()[self.trainer.framework], self.training.is_streamed
        taken = framework.steps({node.op for node in self.training.architecture.nodes}, self.trainer.device)
        useless = attrgetter("resident" if streamed else "streamed")
        return [step for step in framework.tuning if step.name in taken and not useless(step)]


@dataclass(frozen=True)
class Cost:
    """What a timing costs, beside the runs that it is for.

    comparisons: how many processes are compared with the one before.
    start_seconds: time until a process has compiled its first step.
    epoch_seconds, epoch_steps: of an epoch of the stock loop.
    runs: the runs that must take longer than the timing; None if it may take as long as it needs.
    """

    comparisons: int
    start_seconds: float
    epoch_seconds: float
    epoch_steps: int
    runs: PlannedRuns | None

    @property
    def runs_seconds(self) -> float:
        """Time that the runs take; infinite if there is no limit."""
        if self.runs is None:
            return inf
        return self.runs.count * self.start_seconds + self.runs.epochs * self.epoch_seconds

    @property
    def seconds(self) -> float:
        """Time that the timing takes: a warm-up and the turns of both processes for each comparison."""
        epochs, steps = self.turn
        turn_seconds = epochs * self.epoch_seconds * (1 if steps is None else steps / self.epoch_steps)
        return self.comparisons * (self.start_seconds + (2 * ROUNDS + 1) * turn_seconds)

    @property
    def turn(self) -> tuple[int, int | None]:
        """(number of epochs, steps of each or None for all) of a turn: as long as the runs allow, and not longer."""
        allowed = (self.runs_seconds / max(1, self.comparisons) - self.start_seconds) / (2 * ROUNDS + 1)
        wanted = max(LEAST_TURN_SECONDS, min(TURN_SECONDS, allowed))
        if self.epoch_seconds <= max(wanted, min(LONGEST_EPOCH_SECONDS, allowed)):
            epochs = ceil(wanted / self.epoch_seconds)
            return max(1, epochs - (epochs * self.epoch_seconds > max(wanted, allowed))), None
        return 1, max(1, int(wanted / self.epoch_seconds * self.epoch_steps))

    @property
    def left_out(self) -> dict[str, float] | None:
        """Both times if the timing would take longer than the runs, so that it is left out; otherwise None."""
        too_long = self.seconds > self.runs_seconds
        return {"seconds": self.seconds, "runs_seconds": self.runs_seconds} if too_long else None


def train_function(timed: Timed, steps: Sequence[str], threads: int) -> Train:
    """Return a function (number of epochs, steps of each or None for all) that trains and returns its seconds.

    steps: those of the tuning; none of them is the stock loop.
    """
    trainer, training = timed.trainer, timed.training
    adapter = create_adapter(trainer.framework, threads, TUNED if steps else STOCK, steps or None)
    adapter.build(
        architecture=training.architecture,
        weights=training.initial_weights(REPEAT),
        optimizer=training.first_optimizer,
        device=trainer.device,
        dtype=DTYPE,
    )
    adapter.check_device(trainer.device)
    splits = open_splits(training, timed.dataset_folder, timed.mean_file, threads, timed.packed_folder, ["train"])
    adapter.load(split="train", inputs=splits["train"][0], labels=splits["train"][1])
    epochs, compiled = count(1), set[int | None]()

    def train(epoch_count: int, step_count: int | None) -> float:
        parts = [training.feed(REPEAT, next(epochs)).parts(step_count)[0] for _ in range(epoch_count)]
        if step_count not in compiled:
            adapter.compile(parts[0])
            compiled.add(step_count)
        adapter.synchronize()
        begin = time.perf_counter()
        for part in parts:
            adapter.train_epoch(part)
        adapter.synchronize()
        return time.perf_counter() - begin

    return train


def time_tuning(
    timed: Timed,
    start: Callable[[Sequence[str], int], Trainee],
    threads: int,
    runs: PlannedRuns | None = None,
    announce: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Time each step of the tuning beside those before it; return the measured part of the file (records/tuning.py).

    start: starts a process that trains with steps of the tuning and a number of threads.
    threads: number of CPUs that are held. On the CPU, half of it is tried too, then a quarter, and so on; not for
        streamed images, which need the other CPUs to be loaded.
    runs: if the timing would take longer than these runs, however short its turns, nothing is timed.
    announce: takes a phrase on what is timed and for how long, or why nothing is.

    Raises MeasurementError if a process fails.
    """
    steps, least_threads = timed.steps(), threads if timed.trainer.device == "gpu" or timed.training.is_streamed else 1
    names, measured = [step.name for step in steps], []
    with ExitStack() as running:

        def started(taken: Sequence[str], thread_count: int) -> Trainee:
            trainee = start(taken, thread_count)
            running.callback(trainee.close)
            return trainee

        begin = time.monotonic()
        before = started([], threads)
        comparisons = len(steps) + (threads // least_threads).bit_length() - 1
        cost = _cost(before, begin, comparisons, timed.training.feed(REPEAT, 1).steps, runs)
        turn, left_out = cost.turn, cost.left_out
        announce(_announcement(cost))
        if left_out:
            steps, least_threads = [], threads
        else:
            before.take_turn(*turn)  # a warm-up

        def compared(after: Trainee) -> dict[str, list[float]]:
            after.take_turn(*turn)  # a warm-up
            before_seconds, seconds = in_turn(before, after, ROUNDS, *turn)
            return {"before_seconds": before_seconds, "seconds": seconds}

        for place, step in enumerate(steps, start=1):
            after = started(names[:place], threads)
            named = {"step": step.name, "text": step.text, "threads": threads, "taken": True}
            measured.append(named | compared(after))
            before.close()
            before = after
        while (fewer := threads // 2) >= least_threads:
            after = started(names, fewer)
            seconds = compared(after)
            faster = all(map(float.__gt__, *seconds.values()))
            named = {"step": THREADS, "text": f"{fewer} of {threads} threads", "threads": fewer, "taken": faster}
            measured.append(named | seconds)
            if not faster:
                break
            before.close()
            before, threads = after, fewer
    epochs, steps_of_each = turn
    return {
        "turn": {"epochs": epochs, "samples": epochs * timed.training.feed(REPEAT, 1).parts(steps_of_each)[0].samples},
        "epoch_samples": timed.training.samples,
        "steps": measured,
        "threads": threads,
        "left_out": left_out,
    }


def _cost(stock: Trainee, begin: float, comparisons: int, epoch_steps: int, runs: PlannedRuns | None) -> Cost:
    """Measure the speed of the stock loop, and how long its process took to start.

    begin: when the process was started (time.monotonic).
    """
    steps, seconds = 1, stock.take_turn(1, 1)
    start_seconds = time.monotonic() - begin - seconds
    while seconds < TURN_SECONDS and steps < epoch_steps:
        steps = min(2 * steps, epoch_steps)
        seconds = stock.take_turn(1, steps)
    return Cost(comparisons, start_seconds, seconds * epoch_steps / steps, epoch_steps, runs)


def _announcement(cost: Cost) -> str:
    seconds = in_words(cost.seconds)
    if cost.runs is None:
        return f"takes about {seconds}"
    beside = f"{cost.runs.count} runs, which take about {in_words(cost.runs_seconds)}"
    if cost.left_out:
        return f"left out: it would take {seconds}, for {beside}; time_tuning: true times it in any case"
    return f"takes about {seconds}, for {beside}"
