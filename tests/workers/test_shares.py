"""The shares of the ranks: each sample of a batch once, weights with which their mean is the batch's, own CPUs."""

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec

import numpy as np
import pytest
from harness import AS_ROOT

from trainmark.errors import DeviceError
from trainmark.machine import locks
from trainmark.machine import ranks as ranks_module
from trainmark.machine.ranks import Ranks, check_launcher, join_ranks
from trainmark.recipes.batch_order import EpochFeed, epoch_feed

SIZES = [(23, 5, 2), (23, 5, 3), (24, 8, 2), (24, 8, 5), (100, 32, 4), (1024, 1024, 7), (7, 7, 7), (4100, 1030, 1000)]


@pytest.mark.parametrize(("samples", "batch_size", "workers"), SIZES)
def test_each_sample_of_a_batch_is_of_one_rank(samples, batch_size, workers):
    feed = epoch_feed(samples, batch_size, (1, 1), 1)
    order = np.arange(samples) if feed.order is None else feed.order
    shares = [feed.shard(rank, workers) for rank in range(workers)]
    assert {share.steps for share in shares} == {feed.steps}
    for place, batches in zip(feed.places(), zip(*(share.places() for share in shares), strict=True), strict=True):
        parts = [share.order[one] for share, one in zip(shares, batches, strict=True)]
        assert np.array_equal(np.concatenate(parts), order[place]), "in the order of one worker"
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("samples", "batch_size", "workers"), SIZES)
def test_the_mean_of_the_weighted_losses_is_that_of_the_batch(samples, batch_size, workers):
    feed, losses = epoch_feed(samples, batch_size, (1, 1), 2), np.random.default_rng(1).random(samples)
    shares = [feed.shard(rank, workers) for rank in range(workers)]
    means = [[losses[batch].mean() for batch, _ in share.batches(np.arange(samples), losses)] for share in shares]
    weighted = [
        np.multiply(mean, feed.weights_of_share(share, workers)) for mean, share in zip(means, shares, strict=True)
    ]
    expected = [losses[batch].mean() for batch, _ in feed.batches(np.arange(samples), losses)]
    np.testing.assert_allclose(np.mean(weighted, axis=0), expected, rtol=1e-13)


def test_ranks_draw_their_own_masks_and_share_windows_and_rates():
    feed = epoch_feed(23, 5, (1, 1), 1, rates=(("learning_rate", 0.5),))
    shares = [feed.shard(rank, 3) for rank in range(3)]
    assert len({share.dropout_seed for share in [feed, *shares]}) == 4
    assert {(share.augmentation_seed, share.rates) for share in shares} == {(feed.augmentation_seed, feed.rates)}
    assert feed.shard(0, 1) is feed


def test_a_batch_with_fewer_samples_than_workers_has_no_shares():
    with pytest.raises(ValueError, match="a batch of 3 samples has none for some of 4 workers"):
        EpochFeed(None, 5, 23, 1).shard(0, 4)


class OfTwo(Ranks):
    """A rank of two on this host. The second hears what the first has taken.

    heard: all that was said.
    """

    size, local = 2, (0, 1)

    def __init__(self, rank, taken=None):
        self.rank, self._taken, self.heard = rank, taken, []

    def all_values(self, value):
        self.heard.append(value)
        return [self._taken, value] if self.rank and isinstance(value, list) else [value, value]


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host of four cores with two CPUs each, and two GPUs."""
    monkeypatch.setattr(locks, "allowed_cores", lambda: {core: (core, core + 4) for core in range(4)})
    monkeypatch.setattr(locks, "visible_gpus", lambda: ["GPU-a", "GPU-b"])
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setenv("TRAINMARK_LOCK_FOLDER", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")


@pytest.mark.parametrize(
    ("device", "threads", "expected"),
    [
        ("cpu", 1, [((0,), None), ((1,), None)]),
        ("cpu", 2, [((0, 1), None), ((2, 3), None)]),
        ("cpu", 9, [((0, 1, 2, 3), None), ((4, 5, 6, 7), None)]),  # more than there are
        ("gpu", 2, [((0, 1), "GPU-a"), ((2, 3), "GPU-b")]),
    ],
)
def test_the_first_rank_of_a_host_locks_for_all_and_each_has_its_own(host, device, threads, expected):
    first_ranks = OfTwo(0)
    with locks.hold_device(device, threads, ranks=first_ranks) as first:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == (expected[0][1] or "")
        assert (first.cpus, first.gpu) == expected[0]
        handed_on = first_ranks.heard[-1]
        with locks.hold_device(device, threads, ranks=OfTwo(1, handed_on)) as second:
            assert (second.cpus, second.gpu) == expected[1]
            assert os.environ["CUDA_VISIBLE_DEVICES"] == (expected[1][1] or "")


def test_more_workers_than_devices_are_refused(host, monkeypatch):
    monkeypatch.setattr(OfTwo, "local", (0, 1))
    monkeypatch.setattr(locks, "visible_gpus", lambda: ["GPU-a"])
    with (
        pytest.raises(
            DeviceError, match=r"2 workers on .* a CPU core and a GPU of its own, and the run may use 4 and 1"
        ),
        locks.hold_device("gpu", 2, ranks=OfTwo(0)),
    ):
        pass
    monkeypatch.setattr(locks, "allowed_cores", lambda: {0: (0, 1)})
    refused = pytest.raises(DeviceError, match="a CPU core of its own, and the run may use 1 there")
    with refused, locks.hold_device("cpu", 2, ranks=OfTwo(0)):
        pass


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ('exec mpiexec --oversubscribe --bind-to none "$@"', None),
        ('shift 2; "$@"; "$@"', r"launcher .* starts processes that are not the 2 workers of one run; allowed: "),
        ("echo ---- >&2; echo no slots >&2; exit 1", r"launcher .* can't start 2 workers \(no slots\)"),
    ],
)
@pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)")
def test_a_launcher_is_tried_before_anything_starts(tmp_path, monkeypatch, script, refused):
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks_module, "allowed_cores", lambda: {0: (0,), 1: (1,)})
    launcher = tmp_path / "launcher"
    launcher.write_text(f"#!/bin/sh\n{script}\n")
    launcher.chmod(0o755)
    with pytest.raises(DeviceError, match=refused) if refused else nullcontext():
        check_launcher(str(launcher), 2)


def test_one_worker_needs_no_mpi_and_several_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert join_ranks(1).size == 1
    with pytest.raises(DeviceError, match=r"a run with 2 workers needs MPI and the package mpi4py, .*`make workers`"):
        join_ranks(2)
