"""What of ranks and threads fails a run: other weights, another share, threads that are not those of the beginning."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from trainmark.errors import MeasurementError
from trainmark.frameworks.sharing import SharingAdapter
from trainmark.machine.ranks import ALONE, Ranks
from trainmark.networks.graph import chain
from trainmark.recipes.batch_order import epoch_feed
from trainmark.training import rank_check
from trainmark.training.rank_check import RankCheck
from trainmark.training.thread_check import ThreadCheck

NETWORK = chain(
    "small", (1, 2, 2), [("flatten", "Flatten", {}), ("dense", "Dense", {"units": 3}), ("norm", "BatchNorm", {})]
)
FEED = epoch_feed(10, 4, (1, 1), 1)


class Ring(Ranks):
    """The ranks of a test, which call in turn; `all_values` returns what the others would say, if that is known."""

    size, local = 2, (0, 1)

    def __init__(self, rank, first=None):
        self.rank, self.first = rank, first

    def all_values(self, value):
        return [self.first, value] if self.rank and self.first else [value] * 2


def adapter_of(ranks, **changes):
    """An adapter of a rank, with weights of zeros; and its loss is the sum of its samples, plus the first weight."""
    fake = type("Fake", (SharingAdapter,), dict.fromkeys(SharingAdapter.__abstractmethods__))
    made = fake.__new__(fake)
    made.ranks = ranks
    weights = {one.name: np.zeros(one.shape, np.float32) for one in NETWORK.arrays()}
    for name, value in changes.items():
        weights[name.replace("__", ".")] = np.full_like(weights[name.replace("__", ".")], value)
    made.weights = lambda: dict(weights)
    made.set_weights = weights.update
    made.train_epoch = lambda feed: np.array([feed.order[: feed.batch_size].sum() + weights["dense.kernel"].sum()])
    return made


def check_of(ranks, **changes):
    return RankCheck(adapter_of(ranks, **changes), ranks, NETWORK.parameters(), 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"norm__moving_mean": 1.0}, None),  # each rank has statistics of its own samples
        ({"dense__bias": 1e-45}, "after epoch 2 its weights are not those of rank 0, in 1 of 2 layers, from dense on"),
        ({"norm__gamma": np.nan}, "in 1 of 2 layers, from norm on"),
    ],
)
def test_a_rank_with_other_trained_weights_fails(monkeypatch, changes, says):
    first = check_of(Ring(0))
    digest = first.after_epoch(2)
    second = check_of(Ring(1, first._digests()), **changes)
    with pytest.raises(MeasurementError, match=says) if says else nullcontext():
        assert second.after_epoch(2) == digest


def test_one_worker_checks_nothing():
    check = RankCheck(None, ALONE, NETWORK.parameters(), 3)
    check.before_epoch(3, FEED)
    assert check.after_epoch(3) is None


@pytest.mark.parametrize(("draws", "epochs"), [((0, 1, 1), [1, 3]), ((0, 0, 1), [2, 3]), ((0, 0, 0), [3])])
def test_the_last_epoch_and_one_that_is_drawn_are_trained_again(monkeypatch, draws, epochs):
    """With the weights that each began with: they were zeros then, and are ones at the end."""
    drawn = iter(draws)
    monkeypatch.setattr(rank_check.secrets, "randbelow", lambda below: next(drawn))
    check = check_of(Ring(0))
    for epoch in (1, 2, 3):
        check.before_epoch(epoch, FEED)
    own = float(FEED.shard(0, 2).order[:2].sum())
    replays = check.replays(lambda: adapter_of(ALONE, dense__kernel=1.0), dict.fromkeys(range(1, 4), own))
    assert [one["epoch"] for one in replays] == epochs
    assert all(one["losses"] == one["alone_losses"] == [own] * 2 for one in replays)


def test_a_rank_that_had_another_loss_fails_and_no_other(monkeypatch):
    replay = {"epoch": 3, "losses": [1.0, 1.0], "alone_losses": [1.0005, 0.9]}
    check_of(Ring(0)).judge([replay])
    with pytest.raises(MeasurementError, match=r"in epoch 3 it did not train its own share .* loss was 1, .* has 0.9"):
        check_of(Ring(1)).judge([replay])


def test_shares_that_are_not_the_batch_fail_the_run():
    """Both ranks tell the first share."""
    check = check_of(Ring(0))
    check.before_epoch(3, FEED)
    check.replays(lambda: adapter_of(ALONE), {3: 0.0})
    with pytest.raises(MeasurementError, match="in epoch 3 the shares of the ranks are not the parts of the first"):
        check.judge([])


@pytest.mark.parametrize("threads", [2, 1, 3])
def test_a_pool_that_changes_fails_the_run(threads):
    pools = [{"library": "engine", "threads": 2}]
    check = ThreadCheck(SimpleNamespace(thread_pools=lambda: [dict(pool) for pool in pools]))
    pools[0]["threads"] = threads
    says = f"the threads of engine after epoch 4 are {threads}, and before the first they were 2"
    with pytest.raises(MeasurementError, match=says) if threads != 2 else nullcontext():
        check.after(4)
