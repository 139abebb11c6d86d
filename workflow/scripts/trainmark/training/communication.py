"""Measures what sharing its batches costs a run: steps of all ranks together, and of each rank alone, in turns.

The engines overlap the exchange of gradients with computing, or compile it into the step, so that no clock around the
exchange is right for all. What a user pays is the difference to the same steps on the rank's share without it.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter

from trainmark.errors import MeasurementError
from trainmark.frameworks.adapter import Adapter
from trainmark.machine.ranks import Ranks
from trainmark.recipes.batch_order import EpochFeed

PART_SECONDS = 0.5
"""Time for which each of them trains, unless an epoch is shorter or a step longer."""

MOST_PAIRS, LEAST_PAIRS = 9, 3
"""Number of times that both are timed, in alternating order; fewer if a step is long."""

ALL_SECONDS = 10.0
"""Time of all measurements, unless LEAST_PAIRS take longer."""


def part_to_time(epoch: EpochFeed, step_seconds: float) -> tuple[EpochFeed, int]:
    """Return the part of an epoch to measure with, and the number of pairs. step_seconds: about the time of a step."""
    part = epoch.parts(max(1, round(PART_SECONDS / step_seconds)))[0]
    pairs = round(ALL_SECONDS / (2 * part.steps * step_seconds))
    return part, max(LEAST_PAIRS, min(pairs, MOST_PAIRS))


def measure_communication(
    adapter: Adapter, alone: Callable[[], Adapter], feed: EpochFeed, pairs: int, ranks: Ranks
) -> dict:
    """Time a feed with all ranks together and alone, and return `communication` of the record.

    adapter: that of this rank. alone: returns one for one worker with the same network, data and weights.
    feed, pairs: from `part_to_time`, the feed of all ranks together. Its training goes on from the adapter's weights,
        which are of no use afterwards.

    Raises MeasurementError if some rank can't train alone, for lack of memory for example, or counts other samples,
    batches or updates than it was given.
    """
    share = feed.shard(ranks.rank, ranks.size)
    singles: list[Adapter] = []

    def prepare() -> None:
        singles.append(alone())
        singles[0].compile(share)

    ranks.all_measured(prepare)
    seconds: dict[str, list[float]] = {"together_seconds": [], "alone_seconds": []}
    both = [("together_seconds", adapter, feed), ("alone_seconds", singles[0], share)]
    problem = ""
    for pair in range(pairs + 1):
        for name, trained, part in both[:: 1 if pair % 2 else -1]:
            before = trained.counted()["updates"]
            took_seconds = seconds_of(partial(_train, trained, part), ranks)
            problem = problem or part.wrong_counts(trained.counted(), before + part.steps) or ""
            if pair:  # the first one warms caches
                seconds[name].append(took_seconds)
    of_ranks = ranks.all_values((singles[0].counted()["samples"], problem))
    for rank, (_, wrong) in enumerate(of_ranks):
        if wrong:
            raise MeasurementError(f"rank {rank}: the framework {wrong}")
    return {"steps": feed.steps, "samples": feed.samples, "alone_samples": [count for count, _ in of_ranks], **seconds}


def seconds_of(train: Callable[[], object], ranks: Ranks) -> float:
    """Return the seconds that the slowest rank takes to train. Every rank has to call it."""
    ranks.wait()
    start = perf_counter()
    train()
    ranks.wait()
    return perf_counter() - start


def _train(adapter: Adapter, feed: EpochFeed) -> None:
    adapter.train_epoch(feed)
    adapter.synchronize()
