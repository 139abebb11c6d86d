"""The only place that runs a training: from a run's settings and a prepared dataset to its record."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from trainmark.datasets import prepared
from trainmark.errors import DeviceError
from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.registry import create_adapter
from trainmark.machine import nvml
from trainmark.machine.memory import resident_mib
from trainmark.machine.provenance import thread_pools
from trainmark.plan.run import Run
from trainmark.recipes import input_transform
from trainmark.recipes.batch_order import EpochFeed, epoch_feed, run_seed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.recipe import DTYPE, Recipe
from trainmark.training.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
from trainmark.training.clock_check import ClockCheck
from trainmark.training.job import Job
from trainmark.training.kept_weights import remove_weights, write_weights
from trainmark.training.phases import PhaseTimes
from trainmark.training.progress import RunMeasurements
from trainmark.training.status import divergence

CHECKPOINT_SHARE = 0.05
"""A checkpoint is written when the last one's cost is at most this share of the time since it."""

EpochShown = Callable[[dict], None]
"""Called after each epoch with its entry of the curves."""

WentOn = Callable[[int], None]
"""Called with the last epoch of an earlier process, where training goes on from its checkpoint."""


class Training:
    """One run: `train` trains it and returns its record."""

    def __init__(self, run: Run, recipe: Recipe, settings: Mapping, job: Job, phase_times: PhaseTimes) -> None:
        self.run, self.recipe, self.settings, self.job, self.phase_times = run, recipe, settings, job, phase_times
        self.measurements = RunMeasurements(run, recipe, settings, job, phase_times)
        self._loaded: Adapter | None = None
        self._check: ClockCheck  # made by `_prepare`
        self._labels: dict[str, np.ndarray] = {}
        self._writing = threading.Lock()

    def train(self, shown: EpochShown, went_on: WentOn) -> dict:
        """Train from a fresh model, or go on from the newest checkpoint, and return the record.

        A diverged run, and one that runs out of memory, is a result, not an error. Raises DeviceError where the
        framework is not installed, does not see the run's device, or trains on another; MeasurementError where the
        adapter does not wait for its device, or counts other samples, batches or updates than an epoch has; and
        PrecisionError where it computes in two bytes.
        """
        try:
            remove_weights(self.job.weights_file)  # an earlier run's, which nobody may take for this one's
            self._prepare(went_on)
            diverged = self._train_epochs(shown)
            weights = self._keep_weights() if self.job.keep_weights and not diverged else None
        except Exception as error:
            if not (self._loaded.is_out_of_memory(error) if self._loaded else isinstance(error, MemoryError)):
                raise
            return self._out_of_memory(resident_mib(), f"{type(error).__name__}: {error}"[:500])
        return self.measurements.record(diverged=diverged, device_mib=self._device_memory_mib(), weights=weights)

    def over_limit(self, resident_mib: float) -> dict:
        """The record of a run whose process was just found to hold more than its limit: for a watching thread.

        The run writes no checkpoint any more: the watcher is about to remove them. Nor are its weights kept.
        """
        self._writing.acquire()
        remove_weights(self.job.weights_file)
        return self._out_of_memory(
            resident_mib, f"{resident_mib:.1f} MiB exceed the limit of {self.settings['memory_limit_mib']:g} MiB"
        )

    def _out_of_memory(self, resident_mib: float, message: str) -> dict:
        where = {
            "phase": self.phase_times.current_phase,
            "epoch": self.measurements.epoch,
            "resident_mib": resident_mib,
            "message": message,
        }
        return self.measurements.record(out_of_memory=where, device_mib=self._device_memory_mib())

    def _device_memory_mib(self) -> float | None:
        """None on the CPU, and where a run out of memory can no longer tell."""
        with suppress(Exception):
            return self._loaded.device_memory_mib() if self._loaded else None
        return None

    # --- before the first epoch ---------------------------------------------------------------------------------

    def _prepare(self, went_on: WentOn) -> None:
        """Load the framework and the data, build, compile; put the newest checkpoint's state in where there is one."""
        phase_times, measurements = self.phase_times, self.measurements
        with phase_times.phase("import"):
            adapter = create_adapter(self.run.framework, len(self.job.device_lock.cpus))
        self._loaded = adapter
        measurements.provenance["versions"] = adapter.versions()
        with phase_times.phase("data_load"):
            splits = self._splits()
        with phase_times.phase("build"):
            adapter.build(
                architecture=measurements.architecture,
                weights=draw_initial_weights(measurements.architecture, self.recipe.initializer, self._seed),
                optimizer=self.recipe.optimizer,
                device=self.run.device,
                dtype=DTYPE,
            )
            adapter.synchronize()
        adapter.check_precision("weights", adapter.weights())
        with phase_times.phase("transfer", adapter.synchronize):
            for split, (inputs, labels) in splits.items():
                adapter.load(split=split, inputs=inputs, labels=labels)
                self._labels[split] = labels
        self._check_device()
        checkpoint = newest_checkpoint(self.job.checkpoint_folder, self._identity())
        state = checkpoint.state if checkpoint else adapter.state()
        measurements.watch.begin(0)
        with phase_times.phase("compilation", adapter.synchronize) as clock:
            adapter.compile(self._feed(1))
        self._check = ClockCheck(adapter)
        self._check.after(clock.seconds)
        measurements.provenance["thread_pools"] = thread_pools() + adapter.thread_pools()  # all are loaded now
        adapter.set_state(state)
        if checkpoint:
            measurements.go_on(checkpoint.epoch, checkpoint.progress)
            went_on(checkpoint.epoch)
        else:
            measurements.begin(clock.seconds)
            if measurements.architecture.has_dropout:  # its training losses depend on each framework's own masks
                with phase_times.phase("evaluation", adapter.synchronize):
                    measurements.note_initial_evaluation(*self._evaluate("test"))

    @property
    def _adapter(self) -> Adapter:
        assert self._loaded is not None, "_prepare loads the adapter"
        return self._loaded

    @property
    def _seed(self) -> tuple[int, int]:
        return run_seed(self.settings["seed"], self.run.repeat)

    def _feed(self, epoch: int) -> EpochFeed:
        return epoch_feed(self.measurements.training_samples, self.measurements.batch_size, self._seed, epoch)

    def _splits(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """(inputs, labels) by split, as the network sees them."""
        mean = np.load(self.job.mean_file, allow_pickle=False) if self.job.mean_file else None
        splits = prepared.read_splits(self.job.dataset_folder)
        return {
            split: (input_transform.network_inputs(stored, mean, self.measurements.input, DTYPE), np.asarray(labels))
            for split, (stored, labels) in splits.items()
        }

    def _check_device(self) -> None:
        """DeviceError where the arrays did not come to lie on the run's device."""
        provenance = self.measurements.provenance
        provenance["device"] = self._adapter.check_device(self.run.device)
        if self.job.device_lock.gpu:
            provenance["gpu"] |= {"at_start": nvml.state(self.job.device_lock.gpu)}

    # --- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> str:
        """Of the run and its batches: numpy could come to draw others from the same seed."""
        return self.measurements.identity(self._feed(1).sha256())

    def _write_checkpoint(self, epoch: int) -> float:
        """Seconds that it took. A disk that takes none is no reason for a run to fail: the log says it."""
        with self._writing, self.phase_times.phase("checkpoint") as clock:
            checkpoint = Checkpoint(epoch, self._adapter.state(), self.measurements.snapshot(self._device_memory_mib()))
            try:
                write_checkpoint(self.job.checkpoint_folder, self._identity(), checkpoint)
            except OSError as error:
                print(f"no checkpoint was written after epoch {epoch}: {error}; training goes on", flush=True)
        return clock.seconds

    def _keep_weights(self) -> dict | None:
        """The record's part on the weights; None where a disk takes none, which the log says."""
        with self._writing, self.phase_times.phase("checkpoint"):
            try:
                return write_weights(self.job.weights_file, self._adapter.weights())
            except OSError as error:
                print(f"the trained weights were not kept: {error}", flush=True)
        return None

    # --- training -----------------------------------------------------------------------------------------------

    def _train_epochs(self, shown: EpochShown) -> dict | None:
        """Train the epochs that are left; return where the loss stopped being finite, which ends it, or None."""
        first = len(self.measurements.progress.curves) + 1
        written, cost_seconds = time.monotonic(), 0.0
        for epoch in range(first, self.run.epochs + 1):
            self.measurements.epoch = epoch
            entry, diverged = self._train_epoch(epoch, "warm_up" if epoch == first else "steady")
            shown(entry)
            if epoch == first:
                self._check_device_memory()
            if diverged:
                return diverged
            due_seconds = max(self.job.checkpoint_seconds, cost_seconds / CHECKPOINT_SHARE)
            if epoch < self.run.epochs and time.monotonic() - written >= due_seconds:
                cost_seconds = self._write_checkpoint(epoch)
                written = time.monotonic()
        return None

    def _train_epoch(self, epoch: int, part: str) -> tuple[dict, dict | None]:
        """(the epoch's entry of the curves, where its loss stopped being finite)."""
        adapter, progress = self._adapter, self.measurements.progress
        feed = self._feed(epoch)
        joules = self.measurements.meter.joules()
        with self.phase_times.phase(part, adapter.synchronize) as clock:
            losses = adapter.train_epoch(feed)
        self.measurements.add_energy(joules)
        self._check.after(clock.seconds)
        self.measurements.count(adapter.counted(), feed)
        with self.phase_times.phase("evaluation", adapter.synchronize):
            evaluations = {split: self._evaluate(split) for split in self.recipe.evaluated_splits}
        diverged = divergence(epoch, progress.steps, losses, progress.last_loss, evaluations)
        return self.measurements.add_epoch(feed, part, clock.seconds, losses, evaluations), diverged

    def _evaluate(self, split: str) -> tuple[float, float]:
        """(mean cross entropy, accuracy) over a split; texts are scored by the same logits."""
        logits, labels = self._adapter.predict(split), self._labels[split]
        self._adapter.check_precision("prediction", {split: logits})
        if split == "test":
            self.measurements.note_scored_texts(logits, labels)
        return cross_entropy_and_accuracy(logits, labels)

    def _check_device_memory(self) -> None:
        """DeviceError where a GPU run's framework holds no memory of the GPU: then it did not train there."""
        if self.run.device == "cpu":
            return
        held_mib = self._adapter.device_memory_mib()
        if held_mib is None:
            raise DeviceError(
                f"{self.run.framework} does not tell how much of the GPU's memory it uses, and so can't prove that it "
                "trains there; unset TF_GPU_ALLOCATOR and XLA_PYTHON_CLIENT_ALLOCATOR, which keep it from telling"
            )
        if held_mib == 0:
            raise DeviceError(f"{self.run.framework} was asked for the device gpu and used none of its memory")
