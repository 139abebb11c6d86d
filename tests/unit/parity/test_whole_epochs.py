"""Whole epochs: which batches are trained, and what a trainer that errs in them alone is found by."""

from dataclasses import replace

import numpy as np
import pytest
from fake_trainer import ARCHITECTURE, FakeAdapter, plan, spoiling, untouched

from trainmark.parity import whole_epochs
from trainmark.parity.certified_steps import trace
from trainmark.parity.compare import compare
from trainmark.parity.epoch_check import (
    LOSSES,
    SLOW_LOSSES,
    SLOW_UPDATE,
    TAIL_LOSSES,
    TAIL_UPDATE,
    UPDATE,
    compare_epochs,
)
from trainmark.parity.trace import read_trace, write_trace
from trainmark.parity.whole_epochs import (
    COPY_CHANGE,
    EpochPlan,
    chosen_batches,
    feeds_of,
    last_two_batches,
    needed_samples,
    perturbed,
    train_epochs,
)
from trainmark.recipes.batch_order import EpochFeed, epoch_feed

PARAMETERS = [one.name for one in ARCHITECTURE.parameters()]
SAMPLES, BATCH_SIZE = 38, 4  # ten steps, the last one of two samples
FEEDS = feeds_of(SAMPLES, BATCH_SIZE, (1, 1), 1000)


@pytest.fixture(scope="module", autouse=True)
def long():
    """These epochs are long ones: they are trained slowly too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_epochs, "LONG", 20)
        yield


def epoch_plan():
    """Epochs of the fake network."""
    of = plan()
    splits = {split: (inputs.astype("float32"), labels) for split, (inputs, labels) in of.splits.items()}
    return EpochPlan(ARCHITECTURE, of.weights, of.optimizer, splits, FEEDS, last_two_batches(FEEDS[0]))


def trained(spoil=untouched, kind=FakeAdapter, name="b"):
    return train_epochs(kind(name, spoil), epoch_plan(), "cpu")


@pytest.fixture(scope="module")
def right():
    return trained(name="a")


def too_far(right, wrong):
    """What two trainers are too far apart in."""
    return [one.what for one in compare_epochs(right, wrong, PARAMETERS) if one.excess > 1]


# --- what is trained ----------------------------------------------------------------------------------------------


def test_short_epochs_are_trained_whole_and_as_many_as_make_thirty_steps():
    assert [(feed.steps, feed.samples) for feed in FEEDS] == [(10, 38)] * 3
    for epoch, feed in enumerate(FEEDS, start=1):
        assert feed.sha256() == epoch_feed(SAMPLES, BATCH_SIZE, (1, 1), epoch).sha256()


def test_of_a_second_long_epoch_some_batches_are_trained_and_the_last():
    first, second = feeds_of(4030, 100, (1, 1), 10**6)
    whole = epoch_feed(4030, 100, (1, 1), 2)
    assert (first.steps, first.samples, second.steps, second.samples) == (41, 4030, 8, 730)
    assert (second.order[:100] == whole.order[:100]).all()
    assert (second.order[-30:] == whole.order[-30:]).all()
    assert second.dropout_seed == whole.dropout_seed


def test_an_epoch_that_takes_too_long_gives_batches_from_all_over_it():
    first, second = feeds_of(4030, 100, (1, 1), 1000)
    whole = epoch_feed(4030, 100, (1, 1), 1)
    assert (first.steps, first.samples, second.steps) == (10, 930, 8)
    starts = [int(np.flatnonzero(whole.order == first.order[100 * step])[0]) for step in range(10)]
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, 4000)
    assert all((first.order[100 * i : 100 * i + 30] == whole.order[s : s + 30]).all() for i, s in enumerate(starts))
    assert feeds_of(10**6, 256, (1, 1), 5)[0].steps == 4, "however large its batches are"


def test_full_batches_come_in_their_stored_order():
    feeds = feeds_of(50, None, (1, 1), 200)
    assert [(feed.order, feed.steps) for feed in feeds] == [(None, 1)] * 4
    assert last_two_batches(feeds[0]) is None
    assert needed_samples(feeds)[0].tolist() == list(range(50))


def test_needed_samples_are_those_of_the_feeds_and_the_feeds_name_their_places():
    feeds = (EpochFeed(np.array([9, 3, 5]), 2, 3, 1), EpochFeed(np.array([5, 7]), 2, 2, 1))
    indices, placed = needed_samples(feeds)
    assert indices.tolist() == [3, 5, 7, 9]
    assert [indices[feed.order].tolist() for feed in placed] == [[9, 3, 5], [5, 7]]


def test_all_batches_are_chosen_where_there_are_no_more():
    assert chosen_batches(FEEDS[0], 10) is FEEDS[0]


def test_a_perturbed_copy_differs_in_every_value_but_zeros():
    weights = {"a": np.array([1.0, -2.0, 0.0]), "b": np.linspace(1, 2, 50)}
    changed = perturbed(weights)
    np.testing.assert_allclose(np.abs(changed["b"] / weights["b"] - 1), COPY_CHANGE)
    assert len(set(np.sign(changed["b"] - weights["b"]))) == 2
    assert changed["a"][2] == 0


# --- what is found ------------------------------------------------------------------------------------------------


def test_rounding_is_no_difference(right):
    assert too_far(right, trained(spoiling("forward", "norm", 1e-7, dtype="float32"))) == []


class Wrong(FakeAdapter):
    """Errs in epochs of several batches alone, and counts as if it did not."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.epochs = 0

    def train_epoch(self, feed):
        self.epochs += 1
        losses = self.wrong(feed, super().train_epoch)
        self.count = {"samples": feed.samples, "batches": feed.steps}
        return losses

    def part(self, feed, start, end):
        order = feed.order[start * feed.batch_size : end * feed.batch_size]
        return replace(feed, order=order, samples=len(order))

    def untrained(self, feed, true):
        """Losses without an update."""
        values, states = self.values, self.states
        self.values, self.states = dict(values), {name: dict(state) for name, state in states.items()}
        losses = true(feed)
        self.values, self.states = values, states
        return losses


class LastBatchUntrained(Wrong):
    def wrong(self, feed, true):
        losses = true(self.part(feed, 0, feed.steps - 1))
        return np.concatenate([losses, self.untrained(self.part(feed, feed.steps - 1, feed.steps), true)])


class HalfTrained(Wrong):
    def wrong(self, feed, true):
        if feed.steps < 3:
            return true(feed)
        half = feed.steps // 2
        losses = true(self.part(feed, 0, half))
        return np.concatenate([losses, self.untrained(self.part(feed, half, feed.steps), true)])


class Reshuffling(Wrong):
    def wrong(self, feed, true):
        order = np.random.default_rng(self.epochs).permutation(feed.order) if self.epochs % 4 > 1 else feed.order
        return true(replace(feed, order=order))


class Unstable(Wrong):
    """Its copy parts from it as far as another training does: that excuses nothing."""

    def wrong(self, feed, true):
        return true(replace(feed, order=np.random.default_rng(self.epochs).permutation(feed.order)))


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (LastBatchUntrained, [LOSSES, TAIL_UPDATE, UPDATE, SLOW_UPDATE]),
        (HalfTrained, [LOSSES, UPDATE, SLOW_UPDATE]),
        (Reshuffling, [LOSSES, SLOW_LOSSES]),
        (Unstable, [LOSSES, TAIL_LOSSES, SLOW_LOSSES]),
    ],
)
def test_a_wrong_epoch_is_found(right, kind, parts):
    assert set(parts) <= set(too_far(right, trained(kind=kind)))


def test_the_first_wrong_step_is_named(right):
    found = next(
        one for one in compare_epochs(right, trained(kind=LastBatchUntrained), PARAMETERS) if one.what == LOSSES
    )
    assert found.step == 11, "the loss after the first update that is missing"


def test_steps_count_until_neither_loss_is_finite():
    nan = spoiling("loss", "loss", float("nan"), step=4, dtype="float32")
    assert too_far(trained(nan, name="a"), trained(nan)) == []
    found = compare_epochs(trained(name="a"), trained(nan), PARAMETERS)
    assert next(one.difference for one in found if one.what == LOSSES) == float("inf")


def test_what_is_counted_otherwise_is_said():
    class Skipping(FakeAdapter):
        def counted(self):
            return super().counted() | {"updates": 7}

    assert trained(kind=Skipping).wrong_counts == "counted 7 updates of 10 in epoch 1"
    assert trained().wrong_counts is None


def test_a_certificate_says_where_whole_epochs_part_and_the_trace_file_keeps_them(tmp_path):
    kinds = {"a": FakeAdapter, "b": HalfTrained}
    traces = []
    for name, kind in kinds.items():
        made = replace(trace(kind(name, untouched), plan(), "cpu"), epochs=trained(kind=kind, name=name))
        write_trace(made, tmp_path / f"{name}.npz")
        traces.append(read_trace(tmp_path / f"{name}.npz"))
    pair = compare(*traces, ARCHITECTURE)
    assert pair.parity == "different"
    assert pair.sentence.startswith(
        "different: trained as runs are, in float32 and full batches, the loss of step 11 of whole epochs differs by "
    )
    assert pair.drift["losses"] > 1e-4
    assert {stage["parity"] for stage in pair.stages.values()} == {"bitwise"}


def test_where_the_losses_of_both_end_the_drift_is_infinite_and_nothing_is_different():
    """float32 overflows where it may in any framework; float64 has judged the training."""
    nan = spoiling("loss", "loss", float("nan"), dtype="float32")
    traces = [
        replace(trace(FakeAdapter(name, nan), plan(), "cpu"), epochs=trained(nan, name=name)) for name in ("a", "b")
    ]
    pair = compare(*traces, ARCHITECTURE)
    assert (pair.parity, pair.float32) == ("bitwise", {})
    assert set(pair.drift.values()) == {float("inf")}
