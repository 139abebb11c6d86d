"""Whole epochs: which batches are trained, and how an error that shows only in them is found."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from adversary.faulty_trainings import FAULTS
from fake_trainer import ARCHITECTURE, FakeAdapter, fake_training, spoiling, trace, untouched

from trainmark.parity.compare import compare
from trainmark.parity.epoch_check import LOSSES, UPDATE, compare_epochs
from trainmark.parity.trace import read_trace, write_trace
from trainmark.parity.whole_epochs import CertifiedEpochs, certified_feeds, train_epochs
from trainmark.recipes.batch_order import epoch_feed

PARAMETERS = [one.name for one in ARCHITECTURE.parameters()]
SAMPLES, BATCH_SIZE = 38, 4  # ten steps, the last one of two samples
FEEDS = certified_feeds(partial(epoch_feed, SAMPLES, BATCH_SIZE, (1, 1)), 1000)


def fake_epochs():
    """Epochs of the fake network."""
    training = fake_training()
    splits = {split: (inputs.astype("float32"), labels) for split, (inputs, labels) in training.splits.items()}
    return CertifiedEpochs(ARCHITECTURE, training.weights, training.optimizer, splits, FEEDS)


def trained(spoil=untouched, kind=FakeAdapter, name="b"):
    return train_epochs(kind(name, spoil), fake_epochs(), "cpu")


@pytest.fixture(scope="module")
def right():
    return trained(name="a")


def exceeded(right, wrong):
    """The quantities in which two trainers differ more than is allowed."""
    return [one.what for one in compare_epochs(right, wrong, PARAMETERS) if one.excess > 1]


# --- what is trained ----------------------------------------------------------------------------------------------


def test_short_epochs_are_trained_whole_and_as_many_as_make_thirty_steps():
    assert [(feed.steps, feed.samples) for feed in FEEDS] == [(10, 38)] * 3
    for epoch, feed in enumerate(FEEDS, start=1):
        assert feed.sha256() == epoch_feed(SAMPLES, BATCH_SIZE, (1, 1), epoch).sha256()


def test_each_epoch_has_its_rates_and_a_thousandth_of_its_learning_rate():
    rates = [(("learning_rate", 0.1 / epoch), ("momentum", 0.3)) for epoch in (1, 2, 3)]
    run = partial(epoch_feed, SAMPLES, BATCH_SIZE, (1, 1))
    feeds = certified_feeds(lambda epoch: run(epoch, rates[epoch - 1]), 1000)
    assert [feed.rates for feed in feeds] == rates
    seen = []

    class Watched(FakeAdapter):
        def train_epoch(self, feed):
            seen.append((feed.steps, feed.rates))
            return super().train_epoch(feed)

    train_epochs(Watched(), replace(fake_epochs(), feeds=feeds), "cpu")
    slow = [(("learning_rate", pytest.approx(1e-4 / epoch)), ("momentum", 0.3)) for epoch in (1, 2, 3)]
    assert seen[1:] == [(10, rates) for rates in slow], "after the compilation"


def test_after_a_long_epoch_some_batches_of_the_second_are_trained_with_its_last():
    first, second = certified_feeds(partial(epoch_feed, 4030, 100, (1, 1)), 10**6)
    whole = epoch_feed(4030, 100, (1, 1), 2)
    assert (first.steps, first.samples, second.steps, second.samples) == (41, 4030, 8, 730)
    assert (second.order[:100] == whole.order[:100]).all()
    assert (second.order[-30:] == whole.order[-30:]).all()
    assert second.dropout_seed == whole.dropout_seed


def test_of_an_epoch_that_is_too_large_batches_spread_over_it_are_trained():
    first, second = certified_feeds(partial(epoch_feed, 4030, 100, (1, 1)), 1000)
    whole = epoch_feed(4030, 100, (1, 1), 1)
    assert (first.steps, first.samples, second.steps) == (10, 930, 5)
    starts = [int(np.flatnonzero(whole.order == first.order[100 * step])[0]) for step in range(10)]
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, 4000)
    assert all((first.order[100 * i : 100 * i + 30] == whole.order[s : s + 30]).all() for i, s in enumerate(starts))
    assert certified_feeds(partial(epoch_feed, 10**6, 256, (1, 1)), 5)[0].steps == 4, "however large its batches are"


# --- what is found ------------------------------------------------------------------------------------------------


def test_rounding_is_no_difference(right):
    assert exceeded(right, trained(spoiling("forward", "norm", 1e-7, dtype="float32"))) == []


def with_fault(name):
    """A function that makes a fake adapter with one of the faults that the adversary suite injects."""

    def make(*arguments):
        adapter = FakeAdapter(*arguments)
        FAULTS[name](adapter)
        return adapter

    return make


LAST_BATCH, HALF = with_fault("last batch not trained"), with_fault("half of each epoch")


@pytest.mark.parametrize("kind", [LAST_BATCH, HALF])
def test_a_wrong_epoch_is_found(right, kind):
    assert UPDATE in exceeded(right, trained(kind=kind))


def test_the_first_wrong_step_is_named(right):
    wrong = replace(trained(), losses=np.where(np.arange(30) < 4, right.losses, 1.01 * right.losses))
    assert next(one.step for one in compare_epochs(right, wrong, PARAMETERS) if one.what == LOSSES) == 5


def test_a_training_that_amplifies_rounding_is_compared_in_its_first_loss(right):
    wrong = replace(trained(kind=HALF), losses=1.01 * right.losses)
    found = {one.what: one for one in compare_epochs(right, wrong, PARAMETERS, amplifies=True)}
    assert UPDATE not in found
    assert (found[LOSSES].step, found[LOSSES].excess > 1) == (1, True)


def test_float32_may_change_updates_as_much_as_gradients(right):
    assert UPDATE not in [
        one.what for one in compare_epochs(right, trained(kind=HALF), PARAMETERS, 2.0) if one.excess > 1
    ]


def test_steps_in_which_neither_loss_is_finite_are_equal():
    nan = spoiling("loss", "loss", float("nan"), step=4, dtype="float32")
    assert exceeded(trained(nan, name="a"), trained(nan)) == []
    found = compare_epochs(trained(name="a"), trained(nan), PARAMETERS)
    assert next(one.difference for one in found if one.what == LOSSES) == float("inf")


def test_wrong_counts_are_reported():
    class Skipping(FakeAdapter):
        def counted(self):
            return super().counted() | {"updates": 7}

    assert trained(kind=Skipping).wrong_counts == "counted 7 updates instead of 10 in epoch 1"
    assert trained().wrong_counts is None


def test_a_difference_in_whole_epochs_is_named_and_the_trace_file_stores_it(tmp_path):
    kinds = {"a": FakeAdapter, "b": HALF}
    traces = []
    for name, kind in kinds.items():
        made = replace(trace(kind(name, untouched), fake_training(), "cpu"), epochs=trained(kind=kind, name=name))
        write_trace(made, tmp_path / f"{name}.npz")
        traces.append(read_trace(tmp_path / f"{name}.npz"))
    pair = compare(*traces, ARCHITECTURE)
    assert pair.parity == "different"
    assert pair.sentence.startswith(
        "different: trained in float32 and full batches, as runs are, the loss of step 12 of whole epochs differs by "
    )
    assert {stage["parity"] for stage in pair.stages.values()} == {"bitwise"}
