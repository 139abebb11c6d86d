"""The training loop with an adapter of scripted losses: records, divergence, resuming, and checks of the device."""

import itertools
import json
import math
import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import replace

import harness
import numpy as np
import pytest

from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.errors import DeviceError, MeasurementError
from trainmark.files.checksums import sha256_of
from trainmark.frameworks.adapter import Adapter
from trainmark.machine import energy as energy_module
from trainmark.machine.energy import Meter
from trainmark.machine.locks import DeviceLock
from trainmark.networks.layers import training_flops
from trainmark.plan.plan_file import TrainerJob
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import recipe_values
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.records.record import read_record, write_record
from trainmark.records.resolved import input_of
from trainmark.records.step_losses import step_losses
from trainmark.trainer import Trainer
from trainmark.training import peak as peak_module
from trainmark.training import progress as progress_module
from trainmark.training import run as run_module
from trainmark.training.job import Job
from trainmark.training.phases import PhaseTimes

RECIPE = RECIPES["mnist-mlp-flux"]
RUN = Run("e", RECIPE.name, "tiny", Trainer("fake", "cpu"), 3, 2)
TEXT_RUN = Run("e", "imdb-cnn", "texts", Trainer("fake", "cpu"), 1, 1)
TEXT_LABELS = np.array([1, 1, 0, 1, 0, 0, 1, 0, 0, 1])
GPU_RUN = Run("e", RECIPE.name, "tiny", Trainer("fake", "gpu"), 1, 1)
SAMPLES, BATCH_SIZE = 10, 4  # three steps an epoch: 4, 4 and 2 samples
CODE = {"sha256": "0" * 16, "shared": "0" * 16}
MIB = 2**20
PEAK = {"matrix_flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "threads": 2, "dtype": "float32"}


class FakeAdapter(Adapter):
    """Returns scripted losses, by epoch, and records its calls. Its state is the number of epochs trained."""

    def __init__(self, epochs, evaluations=None, kind="cpu", device_mib=None):
        super().__init__("fake", 2)
        self.epochs, self.evaluations, self.kind, self.device_mib = epochs, iter(evaluations or []), kind, device_mib
        self.feeds, self.calls, self.trained, self.compiled = [], [], 0, []
        self.labels = {}

    def build(self, **arguments):
        self.built = arguments

    def load(self, *, split, inputs, labels):
        self.calls.append((split, inputs.shape, inputs.dtype))
        self.labels[split] = labels

    def compile(self, feed):
        self.compiled.append(feed)
        self.trained += 100  # what it changes must be put back

    def train_epoch(self, feed):
        self.feeds.append(feed)
        self.trained += 1
        return np.array(self.epochs[self.trained - 1], float)

    def predict(self, split):
        """Logits with which every sample has the next scripted loss: -log of the probability of its true class."""
        labels = self.labels[split]
        logits = np.zeros((len(labels), 10))
        loss = next(self.evaluations, 0.5)
        logits[range(len(labels)), labels] = -loss if not math.isfinite(loss) else -math.log(math.expm1(loss) / 9)
        return logits

    def weights(self):
        return {"dense1.kernel": np.full((2, 3), self.trained, np.float64)}

    def counted(self):
        feed = self.feeds[-1]
        return {"samples": feed.samples, "batches": feed.steps, "updates": feed.steps * self.trained}

    set_weights = activations = gradients = set_masks = None  # a training calls none of them

    def state(self):
        return {"trained": np.array(self.trained)}

    def set_state(self, state):
        self.trained = int(state["trained"])

    def synchronize(self):
        self.calls.append("synchronize")

    def describe_device(self):
        return {"kind": self.kind, "name": "fake"}

    def device_memory_mib(self):
        return self.device_mib

    def thread_pools(self):
        return [{"library": "fake", "threads": 2}]

    def versions(self):
        return {"fake": "1"}


class Killed(BaseException):
    """Stands for the kill of the process: nothing catches it."""


def prepared_images(folder):
    images = np.arange(SAMPLES * 784, dtype=np.uint64).reshape(SAMPLES, 1, 28, 28).astype(np.uint8)
    labels = np.arange(SAMPLES) % 10
    entry = {"title": "Tiny", "format": "f", "classes": 10, "image_shape": [1, 28, 28]}
    prepare(folder, "tiny", entry, Arrays(dict.fromkeys(SPLITS, (images, labels)), list("0123456789")), [], 1)
    np.save(folder / "mean.npy", np.zeros((1, 28, 28)))


def prepared_texts(folder):
    ids = np.arange(SAMPLES * 400, dtype=np.int32).reshape(SAMPLES, 400) % 5000
    entry = {"title": "Texts", "format": "f", "classes": 2, "sequence_length": 400}
    prepare(folder, "texts", entry, Arrays(dict.fromkeys(SPLITS, (ids, TEXT_LABELS)), ["neg", "pos"], "tokens"), [], 1)


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains with a scripted adapter and returns the record, after it was checked against itself."""
    prepared_images(tmp_path / "images")
    prepared_texts(tmp_path / "texts")

    def run_once(
        adapter, run=RUN, seed=1, code=CODE, kill_after=None, memory_limit_mib=None, keep_weights=True,
        measures_peak=False, **changes,
    ):  # fmt: skip
        started = time.monotonic()  # before the CPUs are held, as in a process of its own
        if not measures_peak:  # it takes a second
            monkeypatch.setattr(run_module, "measure_peak", lambda *arguments: dict(PEAK))
        monkeypatch.setattr(run_module, "create_adapter", lambda name, threads, loop, ranks: adapter)
        recipe = RECIPES[run.recipe]
        data = tmp_path / ("images" if recipe.input else "texts")
        mean = data / "mean.npy" if recipe.input else None
        device_lock = DeviceLock((0, 1), "GPU-fake" if run.trainer.device == "gpu" else None, time.monotonic())
        changes |= {"seed": seed, "batch_size": BATCH_SIZE, "memory_limit_mib": memory_limit_mib}
        file = initial_weights_file(settings := harness.settings(**changes))
        inputs = {
            "recipe": json.loads(json.dumps(recipe_values(recipe))), "dataset": "0" * 8,
            "initial_weights_sha256": sha256_of(file) if file else None,
        }  # fmt: skip
        names = run.experiment, run.recipe, run.dataset, run.trainer
        job = Job(
            TrainerJob(*names, settings, inputs, code, data, mean), device_lock, tmp_path / "checkpoint", 0.0,
            {"position": 1, "of": 2}, tmp_path / "weights.npz", keep_weights, peaks_folder=tmp_path / "peaks",
        )  # fmt: skip
        seen, resumed = [], []

        def epoch_done(entry):
            seen.append(entry)
            if kill_after == entry["epoch"]:
                raise Killed

        run_once.training = one = run_module.Training(run, recipe, job, PhaseTimes(started))
        record = one.train(epoch_done, lambda epoch, step: resumed.append(epoch), print)
        write_record(record, tmp_path / "record.json")
        read_record(tmp_path / "record.json")  # refuses a record that contradicts itself
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)  # as the command does it
        first = resumed[0] if resumed else 0
        assert seen == record["curves"][first:]
        assert one.measurements.is_of_this_run(record)
        return record

    return run_once


GOOD = [[3.0, 2.0, 1.0]] * 3


def test_a_finished_run(train):
    adapter = FakeAdapter(GOOD)
    record = train(adapter)
    assert (record["status"], record["diverged"], record["out_of_memory"]) == ("ok", None, None)
    assert [list(step_losses(entry)) for entry in record["curves"]] == GOOD
    assert record["curves"][0]["batch_loss"] == pytest.approx((3 * 4 + 2 * 4 + 1 * 2) / 10)  # by samples, not by steps
    assert set(record["curves"][0]["evaluations"]) == {"test", "train"}
    assert record["counted"] == {"samples": 30, "batches": 9, "updates": 9}
    assert (record["order"], record["resumes"], record["scored_texts"]) == ({"position": 1, "of": 2}, 0, [])
    assert {"library": "fake", "threads": 2} in record["provenance"]["thread_pools"]
    assert adapter.trained == 3, "changes made by compiling are undone"
    assert [feed.steps for feed in adapter.compiled] == [3]
    orders = [tuple(feed.order) for feed in adapter.feeds]
    assert len(set(orders)) == 3
    assert all(sorted(order) == list(range(SAMPLES)) for order in orders)
    assert adapter.built["dtype"] == "float32"
    assert set(adapter.built["weights"]) == {"dense1.kernel", "dense1.bias", "dense2.kernel", "dense2.bias"}
    loaded = [call for call in adapter.calls if isinstance(call, tuple)]
    assert loaded == [(split, (SAMPLES, 1, 28, 28), np.float32) for split in ("train", "test")]


@pytest.mark.parametrize(
    ("epochs", "evaluations", "diverged"),
    [
        ([[3.0, 2.0, 1.0], [1.0, math.nan, math.nan]], [], ["nan", 2, 5, 1.0]),
        ([[3.0, math.inf, math.nan]], [], ["inf", 1, 2, 3.0]),
        ([[math.nan, 1.0, 1.0]], [], ["nan", 1, 1, None]),
        # the update after the last finite batch loss broke the network: the last step is named
        (GOOD[:2], [0.5, 0.5, math.nan, 0.5], ["nan", 2, 6, 1.0]),
        (GOOD[:2], [0.5, 0.5, math.inf, 0.5], ["inf", 2, 6, 1.0]),
    ],
)
def test_a_loss_that_is_not_finite_ends_the_run(train, tmp_path, epochs, evaluations, diverged):
    (tmp_path / "weights.npz").write_bytes(b"of an earlier run")
    record = train(FakeAdapter([*epochs, *GOOD], evaluations))
    assert [*record["diverged"].values()] == diverged
    assert (record["status"], record["peak"], record["weights"]) == ("diverged", None, None)
    assert len(record["curves"]) == record["result"]["epochs_trained"] == len(epochs)
    assert isinstance(record["curves"][-1]["batch_loss"], float if evaluations else str)
    assert not list(tmp_path.glob("weights.npz*"))


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"samples": 8}, "counted 8 samples instead of 10 in epoch 1"),
        ({"batches": 2, "updates": 2}, "counted 2 batches instead of 3 and 2 updates instead of 3 in epoch 1"),
    ],
)
def test_a_framework_with_other_counts_fails_the_run(train, counts, told):
    adapter = FakeAdapter(GOOD)
    adapter.counted = lambda: FakeAdapter.counted(adapter) | counts
    with pytest.raises(MeasurementError, match=f"the framework {told}: it did not train what it was given"):
        train(adapter)


class TextAdapter(FakeAdapter):
    """The logit of class 1 is 0.1 for the first text, 0.2 for the next, and so on; in epoch 2 ten times as much."""

    def load(self, *, split, inputs, labels):
        super().load(split=split, inputs=inputs, labels=labels)
        self.ids = inputs

    def predict(self, split):
        scores = np.arange(1, len(self.labels[split]) + 1) * (1.0 if self.trained == 2 else 0.1)
        return np.stack([np.zeros_like(scores), scores], axis=1)


def test_token_ids_are_used_as_stored(train):
    adapter = TextAdapter(GOOD)
    record = train(adapter, run=TEXT_RUN)
    loaded = [call for call in adapter.calls if isinstance(call, tuple)]
    assert loaded == [(split, (SAMPLES, 400), np.int32) for split in ("train", "test")]
    assert type(adapter.ids) is np.ndarray and adapter.ids[0].tolist() == list(range(400))
    network = {"architecture": "imdb-cnn", "parameters": 350_751, "dropout": True, "dtype": "float32"}
    assert network.items() <= record["network"].items()
    assert input_of(record) is None


# --- trained weights -----------------------------------------------------------------------------------------------


def test_the_last_epochs_weights_are_written_next_to_the_record(train, tmp_path):
    record = train(FakeAdapter(GOOD))
    assert record["weights"] == {
        "file": "weights.npz",
        "sha256": sha256_of(tmp_path / "weights.npz"),
        "audit": None,
    }
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as arrays:
        assert arrays.files == ["classes", "recipe", "dataset", "dense1.kernel"]
        assert arrays["classes"].tolist() == list("0123456789")
        assert (str(arrays["recipe"]), str(arrays["dataset"])) == (RECIPE.name, "tiny")
        assert arrays["dense1.kernel"].dtype == np.float32 and (arrays["dense1.kernel"] == 3).all()


class Failing(FakeAdapter):
    """Its weights can't be read at the end of the training."""

    def __init__(self, error):
        super().__init__(GOOD)
        self.error = error

    def weights(self):
        if self.trained:
            raise self.error
        return super().weights()


@pytest.mark.parametrize(
    ("adapter", "keep_weights", "status"),
    [
        (FakeAdapter(GOOD), False, "ok"),
        (Failing(MemoryError()), True, "out_of_memory"),
        (Failing(RuntimeError("broken")), True, None),
    ],
    ids=["not asked for", "out of memory", "any other error fails the run"],
)
def test_no_weights_of_this_or_an_earlier_run_are_left(train, tmp_path, adapter, keep_weights, status):
    (tmp_path / "weights.npz").write_bytes(b"of an earlier run")
    with nullcontext() if status else pytest.raises(RuntimeError, match="broken"):
        record = train(adapter, keep_weights=keep_weights)
        assert (record["status"], record["weights"]) == (status, None)
    assert not list(tmp_path.glob("weights.npz*"))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("weights", "the trained weights were not written: [Errno 28] No space left on device"),
        ("checkpoint", "no checkpoint was written after epoch 1: [Errno 28] No space left on device; "),
    ],
)
def test_a_full_disk_does_not_end_a_run(train, monkeypatch, capsys, what, told):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_module, f"write_{what}", full)
    record = train(FakeAdapter(GOOD))
    assert (record["status"], record["weights"] is None) == ("ok", what == "weights")
    assert told in capsys.readouterr().out


# --- going on -----------------------------------------------------------------------------------------------------


def plain(record):
    """What a run computed, without its times, and with a digest of its weights."""
    timed = ("seconds", "waiting_seconds", "training_seconds", "part")
    entries = [*record["curves"], *record["step_evaluations"]]
    computed = [{key: value for key, value in entry.items() if key not in timed} for entry in entries]
    return computed, record["status"], record["weights"]


SCRIPT = [[3.0, 2.5, 2.0], [1.9, 1.8, 1.7], [1.6, 1.5, 1.4]]


def kill(train, adapter, **options):
    """Train until the run is killed, after the epoch `kill_after`; its checkpoint is that of the epoch before."""
    with pytest.raises(Killed):
        train(adapter, **options)


def killed(feed):
    """A training of a part in which the process is killed."""
    raise Killed


def end_in(monkeypatch, adapter, part, end):
    """Let the training of a part, counted from 1, be a call of `end`."""
    train_epoch = adapter.train_epoch
    monkeypatch.setattr(
        adapter, "train_epoch", lambda feed: (end if len(adapter.feeds) + 1 == part else train_epoch)(feed)
    )


@pytest.mark.parametrize(
    ("kills", "first_epochs", "parts"),
    [
        ((2,), [1, 2], ["warm_up", "warm_up", "steady"]),
        ((1, 2, 3), [1, 2, 3], ["warm_up", "warm_up", "warm_up"]),  # nothing was kept of the first process
    ],
)
def test_a_killed_run_resumes_from_its_checkpoint(train, kills, first_epochs, parts):
    """With the order of the samples and the rates of its epochs."""
    settings = {"optimizer": {"rule": "rmsprop_warmup"}}
    of_twin, adapter = FakeAdapter(SCRIPT), FakeAdapter(SCRIPT)
    twin = train(of_twin, **settings)
    for epoch in kills:
        kill(train, FakeAdapter(SCRIPT), kill_after=epoch, **settings)
    record = train(adapter, **settings)
    assert len({feed.rates for feed in of_twin.feeds}) == 3
    fed = [(feed.rates, [*feed.order]) for feed in adapter.feeds]
    assert fed == [(feed.rates, [*feed.order]) for feed in of_twin.feeds[first_epochs[-1] - 1 :]]
    assert plain(record) == plain(twin)
    assert [session["first_epoch"] for session in record["sessions"]] == first_epochs
    assert record["resumes"] == len(first_epochs) - 1
    assert [entry["part"] for entry in record["curves"]] == parts


class RestartingAdapter(FakeAdapter):
    """Its weights are the number of epochs trained, and `trained` counts those of its optimizer."""

    first = 0

    def weights(self):
        return {"dense1.kernel": np.full((2, 3), self.first + self.trained, np.float64)}

    def set_weights(self, weights):
        self.first = weights["dense1.kernel"][0, 0] - self.trained

    def state(self):
        return {"trained": np.array(self.trained), "first": np.array(self.first)}

    def set_state(self, state):
        self.trained, self.first = int(state["trained"]), int(state["first"])


@pytest.mark.parametrize("kill_after", [None, 2, 3, 4])
def test_a_new_optimizer_goes_on_with_the_weights(train, kill_after):
    """A killed run resumes from the epoch before: within the first optimizer, at the restart, and after it."""
    options = {"run": replace(RUN, epochs=4), "optimizer_restarts": 1}
    if kill_after:
        kill(train, RestartingAdapter(SCRIPT), kill_after=kill_after, **options)
    adapter = RestartingAdapter(SCRIPT)
    record = train(adapter, **options)
    assert [entry["batch_loss"] for entry in record["curves"]] == pytest.approx([2.6, 1.82] * 2)
    assert record["counted"]["updates"] == 12
    assert (adapter.trained, adapter.weights()["dense1.kernel"][0, 0]) == (2, 4)


def test_only_productive_time_is_counted(train):
    """Not counted are work after the last checkpoint of a killed process, and the restart."""
    kill(train, FakeAdapter(SCRIPT), kill_after=3)
    slow = FakeAdapter(SCRIPT)
    slow.build = lambda **arguments: time.sleep(0.3)
    record = train(slow)
    assert record["phases_seconds"]["build"] < 0.3
    first, second = (session["restart_seconds"] for session in record["sessions"])
    assert first == 0 and second >= 0.3


PARTS = [[3.0], [2.0], [1.5], [1.0], [0.8], [0.6], [0.5], [0.4], [0.3]]
"""The losses of three epochs of three steps, each a part of its own."""


def test_an_epoch_in_parts_is_evaluated_within(train):
    adapter = FakeAdapter(PARTS, evaluations=[0.9, 0.8, 0.7, 0.6] * 3)
    record = train(adapter, evaluation_steps=1)
    losses = [loss for entry in record["curves"] for loss in step_losses(entry)]
    assert losses == pytest.approx([loss for (loss,) in PARTS])
    assert [one["step"] for one in record["step_evaluations"]] == [1, 2, 4, 5, 7, 8]
    assert [one["loss"] for one in record["step_evaluations"]] == pytest.approx([0.9, 0.8] * 3)
    assert [one["evaluations"]["test"]["loss"] for one in record["curves"]] == pytest.approx([0.7] * 3)
    losses = [one["batch_loss"] for one in record["curves"]]
    assert losses == pytest.approx([(4 * 3 + 4 * 2 + 2 * 1.5) / 10, (4 + 4 * 0.8 + 2 * 0.6) / 10, 0.42])
    orders = [np.concatenate([feed.order for feed in adapter.feeds[i : i + 3]]) for i in (0, 3, 6)]
    assert all(sorted(order) == list(range(SAMPLES)) for order in orders)
    assert len({feed.dropout_seed for feed in adapter.feeds}) == 9


@pytest.mark.parametrize("killed_in", [2, 4, 6, 9])
def test_a_run_killed_within_an_epoch_has_the_same_result(train, monkeypatch, killed_in):
    monkeypatch.setattr(run_module, "CHECKPOINT_SHARE", math.inf)  # a checkpoint after each part, whatever it costs
    twin = train(FakeAdapter(PARTS), evaluation_steps=1)
    adapter = FakeAdapter(PARTS)
    end_in(monkeypatch, adapter, killed_in, killed)
    kill(train, adapter, evaluation_steps=1)
    resumed = FakeAdapter(PARTS)
    record = train(resumed, evaluation_steps=1)
    assert len(resumed.feeds) == 10 - killed_in
    assert plain(record) == plain(twin)


@pytest.mark.parametrize("change", [{"seed": 2}, {"code": CODE | {"sha256": "1" * 16}}, {"compilation_cache": True}])
def test_a_checkpoint_of_other_settings_or_code_is_not_used(train, change, capsys):
    kill(train, FakeAdapter(SCRIPT), kill_after=3)
    adapter = FakeAdapter(SCRIPT)
    assert train(adapter, **change)["resumes"] == 0
    assert len(adapter.feeds) == 3
    assert "this checkpoint belongs to other settings, code or versions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "epochs", "where"), [("load", 0, ("transfer", None)), ("train_epoch", 1, ("steady", 2))]
)
def test_running_out_of_memory_is_a_result(train, place, epochs, where):
    adapter = FakeAdapter(GOOD)
    usual = getattr(adapter, place)

    def full(*arguments, **named):
        if len(adapter.feeds) == epochs:
            raise MemoryError("can't allocate 1 TB")
        return usual(*arguments, **named)

    setattr(adapter, place, full)
    record = train(adapter)
    assert (record["status"], record["result"]["epochs_trained"]) == ("out_of_memory", epochs)
    found = record["out_of_memory"]
    assert (found["phase"], found["epoch"]) == where
    assert found["message"] == "MemoryError: can't allocate 1 TB" and found["resident_mib"] > 10


@pytest.mark.parametrize(
    ("kind", "held_mib", "sentence"),
    [
        ("cpu", None, "was asked for the device gpu but put its arrays on"),  # no silent fall-back
        ("gpu", None, "does not report how much GPU memory"),
        ("gpu", 0.0, "uses no GPU memory"),
    ],
)
def test_a_gpu_run_on_another_device_or_without_gpu_memory_fails(train, kind, held_mib, sentence):
    with pytest.raises(DeviceError, match=sentence):
        train(FakeAdapter(GOOD, kind=kind, device_mib=held_mib), run=GPU_RUN)


def out_of_memory(feed):
    raise MemoryError


@pytest.mark.parametrize("is_coarse", [True, False])
@pytest.mark.parametrize(
    ("status", "end", "parts"),
    [("ok", None, 9), ("ok", killed, 9), ("diverged", None, 5), ("out_of_memory", out_of_memory, 5)],
)
def test_energy_is_recorded_if_its_counter_is_fine_enough(train, monkeypatch, status, end, parts, is_coarse):
    """Of all parts of the run, in two processes if it was killed. Each takes 1 J here."""
    monkeypatch.setattr(run_module, "CHECKPOINT_SHARE", math.inf)  # a checkpoint after each part, whatever it costs
    monkeypatch.setattr(energy_module, "NVML_STEP_SECONDS", 0.1 if is_coarse else 1e-9)
    readings = itertools.count()
    monkeypatch.setattr(progress_module, "open_meter", lambda *_: Meter("nvml", lambda: float(next(readings)), None))
    adapter = FakeAdapter(PARTS if status != "diverged" else [*PARTS[:4], [math.nan]])
    if end:
        end_in(monkeypatch, adapter, 6, end)
    if end == killed:
        kill(train, adapter, evaluation_steps=1)
        adapter = FakeAdapter(PARTS)
    record = train(adapter, evaluation_steps=1)
    energy = record["energy"]
    assert (record["status"], train.training.measurements.progress.parts) == (status, parts)
    if is_coarse:
        assert (energy["training_joules"], energy["source"]) == (None, None)
        assert energy["reason"].startswith("the GPU's energy counter steps by 0.1 s, too coarse")
    else:
        assert energy == {"training_joules": float(parts), "source": "nvml", "reason": None}


# --- the self-test: a device that works on while Python goes on ---------------------------------------------------

STEP_SECONDS = 0.02


class Asynchronous(FakeAdapter):
    """Queues each step and returns at once, like a GPU library. The device needs STEP_SECONDS for each."""

    done_at = 0.0

    def _queue(self, feed):
        self.done_at = max(self.done_at, time.monotonic()) + feed.steps * STEP_SECONDS

    def compile(self, feed):
        super().compile(feed)
        self._queue(feed.one_of_each_size())

    def train_epoch(self, feed):
        self._queue(feed)
        return super().train_epoch(feed)

    def _wait(self):
        time.sleep(max(self.done_at - time.monotonic(), 0.0))

    def synchronize(self):
        self._wait()

    def weights(self):
        self._wait()  # copying from a device waits for whatever writes there
        return {}

    def state(self):
        self._wait()
        return super().state()


class NotSynchronized(Asynchronous):
    """The mistake of many published comparisons: the clock is read while the device is still working."""

    def synchronize(self):
        pass


def test_the_phase_times_show_the_known_duration_of_a_step(train):
    """Up to 3 % more, as no sleep is too short. The best of five attempts counts, as the machine may be shared."""
    known = 3 * STEP_SECONDS
    records = [train(Asynchronous(GOOD)) for _ in range(5)]
    measured = [record["result"]["steady_epoch_seconds"] for record in records]
    print(f"an epoch of {known:.3f} s on an asynchronous device was measured as {min(measured):.5f} s at best")
    assert known <= min(measured) <= 1.03 * known
    phases = records[0]["phases_seconds"]
    assert phases["compilation"] >= 2 * STEP_SECONDS
    assert phases["warm_up"] >= 3 * STEP_SECONDS
    assert phases["steady"] >= 6 * STEP_SECONDS
    assert min(record["phases_seconds"]["evaluation"] for record in records) < STEP_SECONDS


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_missing_synchronize_is_caught(train, epochs):
    with pytest.raises(MeasurementError, match="synchronize must wait for its device"):
        train(NotSynchronized(GOOD), run=replace(RUN, epochs=epochs))


# --- the memory's watch -------------------------------------------------------------------------------------------


def test_a_run_over_its_limit_writes_no_further_checkpoint(train):
    """The caller is about to delete the checkpoints. The training thread waits until the process ends."""
    over, adapter = [], FakeAdapter(GOOD)

    def growing(feed):
        if not over:
            over.append(train.training.over_limit(99.5))
            threading.Timer(0.3, train.training._writing.release).start()  # else this test would wait for ever
        return FakeAdapter.train_epoch(adapter, feed)

    adapter.train_epoch = growing
    begin = time.monotonic()
    kill(train, adapter, memory_limit_mib=50, kill_after=2)  # what was measured has ended: it makes no record
    assert time.monotonic() - begin >= 0.3
    assert over[0]["out_of_memory"]["message"] == "99.5 MiB exceed the limit of 50 MiB"
    assert over[0]["out_of_memory"]["epoch"] == 1


def test_the_peak_memory_is_that_of_all_processes(train, monkeypatch):
    monkeypatch.setattr("trainmark.training.progress.peak_host_mib", lambda: 900.0)
    kill(train, FakeAdapter(SCRIPT, device_mib=30.0), kill_after=3)
    monkeypatch.setattr("trainmark.training.progress.peak_host_mib", lambda: 500.0)
    record = train(FakeAdapter(SCRIPT, device_mib=20.0))
    assert record["memory"] == {"peak_host_mib": 900.0, "peak_device_mib": 30.0}


# --- the peak -----------------------------------------------------------------------------------------------------


def test_a_run_measures_its_peak_after_its_training(train, monkeypatch):
    """Memory, energy and disturbances are those of the training: they are read before."""
    read, adapter = [], FakeAdapter(GOOD)
    monkeypatch.setattr("trainmark.training.progress.peak_host_mib", lambda: read.append("memory") or 500.0)
    adapter.matrix_operation = lambda operation, side, times: read.append(operation) or (lambda: time.sleep(0.02))
    monkeypatch.setattr(peak_module, "CPU_ARRAY_BYTES", MIB)
    record = train(adapter, measures_peak=True)
    assert read[-2:] == ["memory", "matmul"]
    assert record["memory"]["peak_host_mib"] == 500.0
    peak = record["peak"]
    assert peak["matrix_flops_per_second"] == pytest.approx(2 * 1024**3 / 0.02, rel=0.2)
    assert peak["training_flops_per_sample"] == training_flops(train.training.resolved.architecture)
    assert record["phases_seconds"]["peak"] >= 2 * peak_module.SECONDS
    assert record["sessions"][0]["held_seconds"][1] > time.monotonic() - 10


def failing(operation, side, times):
    raise RuntimeError("no such product")


@pytest.mark.parametrize(
    ("operation", "limit_mib", "reason"),
    [
        (failing, None, "RuntimeError: no such product"),
        (lambda *arguments: None, None, "the adapter of fake has no matrix_operation for this device"),
        (failing, 1, "it needs 1024 MiB of memory, and 0 MiB are free"),
    ],
)
def test_a_run_is_kept_if_its_peak_cannot_be_measured(train, capsys, operation, limit_mib, reason):
    adapter = FakeAdapter(GOOD)
    adapter.matrix_operation = operation
    record = train(adapter, measures_peak=True, memory_limit_mib=limit_mib)
    assert (record["status"], record["peak"]) == ("ok", None)
    assert record["weights"]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "the peak was not measured" in line]
    assert reason in line
