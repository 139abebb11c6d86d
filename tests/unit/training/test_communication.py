"""What is timed of the communication of several workers, and what is not measured."""

import pytest

from trainmark.errors import MeasurementError
from trainmark.machine.ranks import Ranks
from trainmark.recipes.batch_order import epoch_feed
from trainmark.records.result import communication_share
from trainmark.training import communication
from trainmark.training.communication import measure_communication, part_to_time

SAMPLE_SECONDS = 1e-3
LATENCY_SECONDS, BYTES, BYTES_PER_SECOND = 5e-6, 1e8, 1e10


class FirstOf(Ranks):
    """The first of so many ranks, of which the others do the same."""

    def __init__(self, size=2):
        self.size = size

    def all_values(self, value):
        return [value] * self.size


class Simulated:
    """An adapter on a clock of its own: a step takes so long for each sample of a rank, and for a ring of gradients."""

    seconds = 0.0

    def __init__(self, workers=1):
        ring = 2 * (workers - 1) * (LATENCY_SECONDS + BYTES / workers / BYTES_PER_SECOND)
        self.workers, self.exchange_seconds, self.feeds, self.counts = workers, ring, [], {"updates": 0}

    def train_epoch(self, feed):
        self.feeds.append(feed)
        self.counts = {"samples": feed.samples, "batches": feed.steps, "updates": self.counts["updates"] + feed.steps}
        Simulated.seconds += feed.samples / self.workers * SAMPLE_SECONDS + feed.steps * self.exchange_seconds

    compile = train_epoch

    def counted(self):
        return self.counts

    def synchronize(self):
        """Everything is done."""


@pytest.mark.parametrize("workers", [2, 4, 32, 1024])
def test_the_share_is_what_the_exchange_adds_to_a_step(monkeypatch, workers):
    monkeypatch.setattr(communication, "perf_counter", lambda: Simulated.seconds)
    together, alone = Simulated(workers), Simulated()
    feed = epoch_feed(8 * 2048, 2048, (1, 1), 1)
    measured = measure_communication(together, lambda: alone, feed, 4, FirstOf(workers))
    assert (measured["steps"], len(measured["alone_seconds"]), len(measured["together_seconds"])) == (8, 4, 4)
    computing = 2048 / workers * SAMPLE_SECONDS
    assert (measured["samples"], measured["alone_samples"]) == (8 * 2048, [8 * 2048 // workers] * workers)
    expected = together.exchange_seconds / (computing + together.exchange_seconds)
    assert communication_share({"communication": measured}) == pytest.approx(expected)
    assert {(feed.samples, feed.steps) for feed in alone.feeds} == {(8 * 2048 // workers, 8)}


@pytest.mark.parametrize("fault", [{"samples": 1024}, {"batches": 1}, {"updates": 1}])
def test_a_rank_that_counts_less_alone_has_no_share(fault):
    """Half of the samples in half of the time would make the share of communication larger."""
    alone = Simulated()
    alone.counted = lambda: alone.counts | fault
    with pytest.raises(MeasurementError, match=r"rank 0: the framework counted .* instead of"):
        measure_communication(Simulated(2), lambda: alone, epoch_feed(4096, 2048, (1, 1), 1), 3, FirstOf())


@pytest.mark.parametrize(
    ("step_seconds", "steps", "pairs"), [(1e-6, 40, 9), (0.01, 40, 9), (0.05, 10, 9), (1.0, 1, 5), (60.0, 1, 3)]
)
def test_long_steps_are_timed_less_often(step_seconds, steps, pairs):
    part, times = part_to_time(epoch_feed(400, 10, (1, 1), 1), step_seconds)
    assert (part.steps, times) == (steps, pairs)
