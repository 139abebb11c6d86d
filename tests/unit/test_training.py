"""The training loop with an adapter that plays given losses: records, divergence, and the device's proof."""

import math
import time

import numpy as np
import pytest

from trainmark import training
from trainmark.datasets import Arrays
from trainmark.errors import DeviceError
from trainmark.ledger import Ledger
from trainmark.matrix import Run
from trainmark.preparing import prepare
from trainmark.recipes import RECIPES
from trainmark.records import write_record

RECIPE = RECIPES["mnist-mlp-flux"]
RUN = Run("e", RECIPE.name, "tiny", "fake", "cpu", 3, 2)
SAMPLES, BATCH_SIZE = 10, 4  # three steps an epoch: 4, 4 and 2 samples


class FakeAdapter:
    """Gives back the losses of a script, epoch by epoch, and notes how it was called."""

    def __init__(self, epochs, evaluations=None, kind="cpu"):
        self.epochs, self.evaluations, self.kind = iter(epochs), iter(evaluations or []), kind
        self.feeds, self.calls = [], []

    def build(self, **arguments):
        self.built = arguments

    def load(self, *, split, images, labels):
        self.calls.append((split, images.shape, images.dtype))

    def train_epoch(self, feed):
        self.feeds.append(feed)
        return np.array(next(self.epochs), float)

    def evaluate(self, split):
        return next(self.evaluations, 0.5), 0.75

    def synchronize(self):
        self.calls.append("synchronize")

    def describe_device(self):
        return {"kind": self.kind, "name": "fake"}

    def versions(self):
        return {"fake": "1"}


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains with a scripted adapter and returns the record, which fits the schema."""
    images = np.arange(SAMPLES * 784, dtype=np.uint64).reshape(SAMPLES, 1, 28, 28).astype(np.uint8)
    labels = np.arange(SAMPLES) % 10
    entry = {"title": "Tiny", "format": "f", "classes": 10, "image_shape": [1, 28, 28]}
    arrays = Arrays({"train": (images, labels), "test": (images, labels)}, list("0123456789"))
    prepare(tmp_path, "tiny", entry, arrays, [], 1)
    np.save(tmp_path / "mean.npy", np.zeros((1, 28, 28)))

    def run(adapter, step_losses=100, run=RUN):
        monkeypatch.setattr(training, "create_adapter", lambda name, threads: adapter)
        settings = training.Settings(1, BATCH_SIZE, RECIPE.input, step_losses)
        seen = []
        record = training.run_training(
            run, RECIPE, settings, tmp_path, tmp_path / "mean.npy", 2, Ledger(time.monotonic()), seen.append
        )
        write_record(record, tmp_path / "record.json")
        assert seen == record["curves"]
        return record

    return run


GOOD = [[3.0, 2.0, 1.0]] * 3


def test_a_finished_run(train):
    record = train(FakeAdapter(GOOD), step_losses=4)
    assert (record["status"], record["diverged"]) == ("ok", None)
    assert record["step_losses"] == [3.0, 2.0, 1.0, 3.0]
    assert [entry["epoch"] for entry in record["curves"]] == [1, 2, 3]
    assert record["curves"][0]["batch_loss"] == pytest.approx((3 * 4 + 2 * 4 + 1 * 2) / 10)  # by samples, not by steps
    assert set(record["curves"][0]["evaluations"]) == {"test", "train"}
    seconds = [entry["seconds"] for entry in record["curves"]]
    assert record["result"]["training_seconds"] == pytest.approx(sum(seconds))
    assert record["result"]["first_epoch_seconds"] == seconds[0]
    assert record["result"]["steady_epoch_seconds"] == pytest.approx(np.median(seconds[1:]))
    assert record["phases_seconds"]["training"] == pytest.approx(sum(seconds))


def test_each_epoch_has_its_own_order_of_all_samples(train):
    adapter = FakeAdapter(GOOD)
    train(adapter)
    orders = [tuple(feed.order) for feed in adapter.feeds]
    assert len(set(orders)) == 3
    assert all(sorted(order) == list(range(SAMPLES)) for order in orders)


def test_adapter_is_given_float32_weights_and_splits(train):
    adapter = FakeAdapter(GOOD)
    train(adapter)
    assert adapter.built["dtype"] == "float32"
    assert set(adapter.built["weights"]) == {"dense1.kernel", "dense1.bias", "dense2.kernel", "dense2.bias"}
    loaded = [call for call in adapter.calls if isinstance(call, tuple)]
    assert loaded == [(split, (SAMPLES, 1, 28, 28), np.float32) for split in ("train", "test")]


def test_one_epoch_has_no_later_ones(train):
    run = Run("e", RECIPE.name, "tiny", "fake", "cpu", 1, 1)
    assert train(FakeAdapter(GOOD), run=run)["result"]["steady_epoch_seconds"] is None


@pytest.mark.parametrize(
    ("epochs", "kind", "epoch", "step", "last_finite_loss"),
    [
        ([[3.0, 2.0, 1.0], [1.0, math.nan, math.nan]], "nan", 2, 5, 1.0),
        ([[3.0, math.inf, math.nan]], "inf", 1, 2, 3.0),
        ([[math.nan, 1.0, 1.0]], "nan", 1, 1, None),
        ([[1.0, 2.0, -math.inf]], "inf", 1, 3, 2.0),
    ],
)
def test_a_loss_that_is_not_finite_ends_the_run(train, epochs, kind, epoch, step, last_finite_loss):
    record = train(FakeAdapter([*epochs, *GOOD]))
    assert record["status"] == "diverged"
    wanted = {"kind": kind, "epoch": epoch, "step": step, "last_finite_loss": last_finite_loss}
    assert record["diverged"] == wanted
    assert len(record["curves"]) == record["result"]["epochs_trained"] == len(epochs)
    assert isinstance(record["curves"][-1]["batch_loss"], str)


@pytest.mark.parametrize(("loss", "kind"), [(math.nan, "nan"), (math.inf, "inf")])
def test_an_evaluation_that_is_not_finite_ends_the_run(train, loss, kind):
    """The update after the last finite batch loss broke the network: the last step is named."""
    record = train(FakeAdapter(GOOD, evaluations=[0.5, 0.5, loss, 0.5]))
    assert record["diverged"] == {"kind": kind, "epoch": 2, "step": 6, "last_finite_loss": 1.0}
    assert len(record["curves"]) == 2


def test_a_run_that_is_not_where_it_should_be_fails(train):
    """No silent fall-back: arrays on another device than the one asked for are an error."""
    run = Run("e", RECIPE.name, "tiny", "fake", "gpu", 1, 1)
    with pytest.raises(DeviceError, match="was asked for the device gpu"):
        train(FakeAdapter(GOOD, kind="cpu"), run=run)


def test_the_clock_is_read_after_a_synchronize(train):
    """Work that an asynchronous device has only queued counts as training, not as evaluation."""

    class Asynchronous(FakeAdapter):
        queued = 0.0

        def train_epoch(self, feed):
            self.queued = 0.05
            return super().train_epoch(feed)

        def synchronize(self):
            time.sleep(self.queued)
            self.queued = 0.0

    record = train(Asynchronous(GOOD))
    assert all(entry["seconds"] >= 0.05 for entry in record["curves"])
