"""Trains a run: from its settings and a prepared dataset to its record. Nothing else runs a training."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import numpy as np

from trainmark.datasets.prepared import read_manifest
from trainmark.errors import DeviceError, MeasurementError, in_one_sentence
from trainmark.frameworks.adapter import Adapter, evaluation_batch_size
from trainmark.frameworks.registry import create_adapter
from trainmark.loading.splits import Split, open_splits
from trainmark.machine import nvml
from trainmark.machine.locks import keep_locks
from trainmark.machine.memory import resident_mib
from trainmark.machine.provenance import thread_pools
from trainmark.plan.run import Run
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.outputs import Evaluation, evaluate
from trainmark.recipes.recipe import DTYPE, Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.stream import Stream
from trainmark.records.result import part_steps
from trainmark.records.step_losses import decode_step_losses
from trainmark.training.audited_epoch import FILE_NAME as AUDIT_FILE
from trainmark.training.audited_epoch import AuditedEpoch
from trainmark.training.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
from trainmark.training.clock_check import ClockCheck
from trainmark.training.communication import measure_communication, part_to_time
from trainmark.training.job import Job
from trainmark.training.kept_weights import remove_arrays, remove_weights, write_weights
from trainmark.training.pace import PaceMeter, StepCallback
from trainmark.training.peak import measure_peak, shared_peak
from trainmark.training.phases import PhaseTimes
from trainmark.training.progress import Part, RunMeasurements
from trainmark.training.rank_check import RankCheck
from trainmark.training.status import divergence
from trainmark.training.thread_check import ThreadCheck

CHECKPOINT_SHARE = 0.05
"""A checkpoint is written once the time to write the last one is at most this fraction of the time since then."""

Value = TypeVar("Value")

EpochCallback = Callable[[dict], None]
"""Called after each epoch with its entry in the curves."""

ResumeCallback = Callable[[int, int], None]
"""Called when training resumes from a checkpoint, with the epoch of the checkpoint and the steps of the next epoch."""


class Training:
    """The training of one run. `train` returns its record.

    Of several ranks each has a training, and they go through it together: each trains its share and keeps its own time,
    and the first alone evaluates, writes checkpoints and weights, and returns the record.
    """

    def __init__(self, run: Run, recipe: Recipe, job: Job, phase_times: PhaseTimes) -> None:
        self.run, self.settings, self.job, self.phase_times = run, job.planned.settings, job, phase_times
        self._ranks = job.ranks
        self.resolved = ResolvedTraining(recipe, self.settings, read_manifest(job.planned.dataset_folder))
        self.measurements = RunMeasurements(run, self.resolved, job, phase_times)
        self._loaded: Adapter | None = None
        self._training_data: Split | None = None  # of several workers, opened by `_prepare`
        self._check: ClockCheck  # these are made by `_prepare`
        self._threads: ThreadCheck
        self._ranks_check: RankCheck
        self._settled: tuple[float, float]  # moment and CPU seconds when this rank last had done its work
        self._single: Adapter | None = None
        self._labels: dict[str, np.ndarray] = {}
        self._stream: Stream | None = None
        self._pace: PaceMeter  # of a stream, made with it
        self._built: dict[str, np.ndarray] = {}  # the state before the first step, for new optimizers
        self._written: float  # moment of the last checkpoint and the time it cost, set by `_train_epochs`
        self._cost_seconds: float
        self._writing = threading.Lock()
        self._is_trained = False
        self._audited: AuditedEpoch | None = None  # of the first rank of an audited run, made by `_prepare`

    def train(self, on_epoch: EpochCallback, on_resume: ResumeCallback, on_step: StepCallback) -> dict:
        """Train from a fresh model, or resume from the newest checkpoint, and return the record.

        on_step: called from time to time within an epoch on streamed images.

        Divergence and running out of memory are results and are recorded; they raise nothing. Raises

        DeviceError: the framework is not installed, does not see the run's device, or trains on another one.
        MeasurementError: the adapter does not wait for its device, its counts of samples, batches or updates are not
        those of the epoch, its threads change, or its ranks train different networks or other shares than theirs.
        PrecisionError: the framework computes in 16 bits.
        """
        try:
            remove_weights(self.job.weights_file)  # an earlier training's: nobody may take them for this one's
            self._prepare(on_resume, on_step)
            diverged = self._train_epochs(on_epoch)
            weights = self._keep_weights() if self.job.keep_weights and not diverged else None
        except Exception as error:
            if self._ranks.size > 1:  # the others would wait for this one: the run fails
                raise
            if not (self._loaded.is_out_of_memory(error) if self._loaded else isinstance(error, MemoryError)):
                raise
            return self._out_of_memory(resident_mib(), f"{type(error).__name__}: {error}"[:500])
        with self._writing:
            self._is_trained = True
        self.measurements.end(self._device_memory_mib())
        replays = None if diverged else self._after_training("share of each rank", self._replays)
        self._ranks_check.judge(replays or [])
        record = self.measurements.record(
            diverged=diverged,
            weights=weights,
            peak=None if diverged else self._after_training("peak", self._peak),
            replays=replays,
            communication=None if diverged else self._after_training("communication", self._communication),
            other_ranks=self._ranks.all_values(self.measurements.of_rank())[1:],
        )
        if self._stream:
            self._stream.close()
        return record

    def over_limit(self, resident_mib: float) -> dict | None:
        """Return the record of a run whose process exceeds its memory limit; None if its training has ended.

        Called by the thread of the memory watch. From now on the run writes neither checkpoints, which the caller is
        about to delete, nor weights, and its training can't end.

        Raises DeviceError if there are other ranks, which would wait for this one.
        """
        message = f"{resident_mib:.1f} MiB exceed the limit of {self.settings['memory_limit_mib']:g} MiB"
        self._writing.acquire()
        if self._is_trained:
            self._writing.release()
            return None
        if self._ranks.size > 1:
            raise DeviceError(f"{message} (memory_limit_mib); allowed: a smaller batch, more workers or a higher limit")
        remove_weights(self.job.weights_file)
        remove_arrays(self.job.weights_file)
        return self._out_of_memory(resident_mib, message)

    def _out_of_memory(self, resident_mib: float, message: str) -> dict:
        details = {
            "phase": self.phase_times.current_phase,
            "epoch": self.measurements.epoch,
            "resident_mib": resident_mib,
            "message": message,
        }
        self.measurements.end(self._device_memory_mib())
        return self.measurements.record(out_of_memory=details)

    def _device_memory_mib(self) -> float | None:
        """Peak GPU memory. None on the CPU, or if the framework can't tell any more after running out of memory."""
        with suppress(Exception):
            return self._loaded.device_memory_mib() if self._loaded else None
        return None

    def _peak(self) -> dict:
        device, limit_mib = self.run.trainer.device, self.settings["memory_limit_mib"]
        here = len(self._ranks.local)
        measure = partial(measure_peak, self._adapter, device, self.job.threads, limit_mib, here)
        conditions = self.measurements.conditions_of_peak()
        return self.measurements.share_of(shared_peak(self.job.peaks_folder, conditions, measure, self._ranks))

    def _communication(self) -> dict | None:
        """Return `communication` of the record; None for one worker."""
        if self._training_data is None:
            return None

        def alone() -> Adapter:
            single = self._alone()
            single.set_weights(self._adapter.weights())
            return single

        feed, seconds = self._feed(self.run.epochs), self.measurements.progress.curves[-1]["seconds"]
        part, pairs = part_to_time(feed, self._ranks.from_first(lambda: seconds / feed.steps))
        return measure_communication(self._adapter, alone, part, pairs, self._ranks)

    def _replays(self) -> list[dict] | None:
        """Return `replays` of the record; None for one worker."""
        if self._ranks.size == 1:
            return None
        progress = self.measurements.progress
        losses = {
            entry["epoch"]: decode_step_losses(own["share_losses"] or entry["step_losses"])[0]
            for entry, own in zip(progress.curves, progress.epochs, strict=True)
        }
        return self._ranks_check.replays(self._alone, losses)

    def _alone(self) -> Adapter:
        """Return an adapter for one worker, with the network and the training data of this run."""
        if self._single is None:
            assert self._training_data is not None, "there are several workers"
            if self._stream:
                self._pace.begin_epoch(0, 0)  # of no epoch
            adapter = create_adapter(self.run.trainer.framework, self.job.threads)
            self._build(adapter, self._adapter.weights())
            inputs, labels = self._training_data
            adapter.load(split="train", inputs=inputs, labels=labels)
            self._single = adapter
        return self._single

    def _after_training(self, what: str, measure: Callable[[], Value]) -> Value | None:
        """Return what a function measures; None, with a line in the log, if it can't be measured."""
        with self.phase_times.phase("peak"):
            try:
                return measure()
            except Exception as error:  # whatever a framework raises: the training is done, and its record counts
                if self._ranks.size > 1 and not isinstance(error, MeasurementError):
                    raise  # the others wait for this rank
                print(f"the {what} was not measured: {in_one_sentence(error)}"[:500], flush=True)
        return None

    # --- before the first epoch ---------------------------------------------------------------------------------

    def _prepare(self, on_resume: ResumeCallback, on_step: StepCallback) -> None:
        """Load framework and data, build and compile the network, and restore the newest checkpoint if there is one."""
        phase_times, measurements = self.phase_times, self.measurements
        with phase_times.phase("import"):
            trainer = self.run.trainer
            adapter = create_adapter(trainer.framework, self.job.threads, trainer.loop, ranks=self._ranks)
        self._loaded = adapter
        measurements.provenance["versions"] = adapter.versions()
        cache_folder = self.job.compilation_cache(self.run.trainer.framework)
        programs = adapter.open_compilation_cache(cache_folder) if self.settings["compilation_cache"] else None
        with phase_times.phase("data_load"):
            splits = self._splits(on_step)
        with phase_times.phase("build"):
            self._build(adapter, self.resolved.initial_weights(self.run.repeat))
            adapter.synchronize()
        weights = adapter.weights()
        adapter.check_precision("weights", weights)
        measurements.note_initial_weights(weights)
        if self._ranks.size > 1:
            self._training_data = splits["train"]
        with phase_times.phase("transfer", adapter.synchronize):
            for split, (inputs, labels) in splits.items():
                adapter.load(split=split, inputs=inputs, labels=labels)
                self._labels[split] = labels
        self._check_device()
        checkpoint = self._ranks.from_first(lambda: newest_checkpoint(self.job.checkpoint_folder, self._identity()))
        restarts = self.resolved.optimizer_restarts > 0
        built = {} if checkpoint and not restarts else adapter.state()
        self._built = built if restarts else {}
        state = checkpoint.state if checkpoint else built
        measurements.watch.begin(0)
        with phase_times.phase("compilation", adapter.synchronize) as clock:
            for part in self._parts_to_compile():
                adapter.compile(part)
        self._check = ClockCheck(adapter)
        self._check.after(clock.seconds)
        measurements.provenance["thread_pools"] = thread_pools() + adapter.thread_pools()  # all are loaded now
        self._threads = ThreadCheck(adapter)
        self._ranks_check = RankCheck(adapter, self._ranks, self.resolved.architecture.parameters(), self.run.epochs)
        adapter.set_state(state)
        if checkpoint:
            measurements.resume(checkpoint.epoch, checkpoint.progress[self._ranks.rank])
            on_resume(checkpoint.epoch, checkpoint.step)
        else:
            remove_arrays(self.job.weights_file)
            measurements.begin(clock.seconds, programs)
            if self.resolved.architecture.has_dropout:  # its training losses depend on the framework's own masks
                with phase_times.phase("evaluation", adapter.synchronize):
                    measurements.note_initial_evaluation(self._evaluate("test"))

        if self.job.audited_epochs and self.job.keep_weights and self._ranks.rank == 0:
            audit_file, kept = self.job.weights_file.with_name(AUDIT_FILE), measurements.progress.audit
            self._audited = AuditedEpoch(audit_file, adapter, self.job.audited_epochs, kept)

    def _build(self, adapter: Adapter, weights: Weights) -> None:
        adapter.build(
            architecture=self.resolved.architecture,
            weights=weights,
            optimizer=self.resolved.first_optimizer,
            device=self.run.trainer.device,
            dtype=DTYPE,
        )

    def _parts_to_compile(self) -> Iterable[EpochFeed]:
        return {part.samples: part for part in self._feed(1).parts(self._part_steps)}.values()

    @property
    def _adapter(self) -> Adapter:
        assert self._loaded is not None, "_prepare loads the adapter"
        return self._loaded

    def _feed(self, epoch: int) -> EpochFeed:
        return self.resolved.feed(self.run.repeat, epoch)

    def _splits(self, on_step: StepCallback) -> dict[str, Split]:
        job = self.job
        cpus = len(job.device_lock.cpus)
        planned = job.planned
        splits = open_splits(self.resolved, planned.dataset_folder, planned.mean, cpus, planned.packed)
        inputs, labels = splits["train"]
        if isinstance(inputs, Stream):
            size = self.settings["evaluation_batch_size"] or evaluation_batch_size(self.resolved.architecture)
            for stream, _ in splits.values():
                assert isinstance(stream, Stream)
                stream.evaluation_batch_size = size
            self._stream, self._pace = inputs, PaceMeter(len(labels), self.run.epochs, on_step)
            inputs.on_batch = self._pace.count
        return splits

    def _check_device(self) -> None:
        """Raise DeviceError if the arrays are not on the run's device."""
        provenance = self.measurements.provenance
        provenance["device"] = self._adapter.check_device(self.run.trainer.device)
        if self.job.device_lock.gpu:
            provenance["gpu"] |= {"at_start": nvml.state(self.job.device_lock.gpu)}

    # --- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> str:
        """Identity of the run, its batches included: another version of numpy might draw others from the same seed."""
        return self.measurements.identity(self._feed(1).sha256())

    def _write_checkpoint(self, epoch: int, step: int) -> float:
        """Write a checkpoint and return the seconds it took. If the disk refuses it, log that and train on.

        epoch, step: see `Checkpoint`.
        """
        with self._writing, self.phase_times.phase("checkpoint") as clock:
            progress = self._ranks.all_values(self.measurements.snapshot(self._device_memory_mib()))
            checkpoint = Checkpoint(epoch, self._adapter.state(), progress, step)
            self._ranks.from_first(lambda: self._write(checkpoint))
        return clock.seconds

    def _write(self, checkpoint: Checkpoint) -> None:
        try:
            write_checkpoint(self.job.checkpoint_folder, self._identity(), checkpoint)
        except OSError as error:
            epoch, step = checkpoint.epoch, checkpoint.step
            where = f"step {step} of epoch {epoch + 1}" if step else f"epoch {epoch}"
            print(f"no checkpoint was written after {where}: {error}; training continues", flush=True)

    def _checkpoint_if_due(self, epoch: int, step: int = 0) -> None:
        due_seconds = max(self.job.checkpoint_seconds, self._cost_seconds / CHECKPOINT_SHARE)
        if self._ranks.from_first(lambda: time.monotonic() - self._written >= due_seconds):
            self._cost_seconds = self._write_checkpoint(epoch, step)
            self._written = time.monotonic()

    def _keep_weights(self) -> dict | None:
        """Write the trained weights and return `weights` of the record; None, with a line in the log, if that fails."""

        def write() -> dict | None:
            try:
                trained, kept = self.measurements.trained, self.measurements.progress.audit
                return write_weights(self.job.weights_file, self._adapter.weights(), trained, kept)
            except OSError as error:
                print(f"the trained weights were not written: {error}", flush=True)
            return None

        with self._writing, self.phase_times.phase("checkpoint"):
            return self._ranks.from_first(write)

    # --- training -----------------------------------------------------------------------------------------------

    def _train_epochs(self, on_epoch: EpochCallback) -> dict | None:
        """Train the remaining epochs. Stops at a loss that is not finite and returns where that was, else None."""
        first = len(self.measurements.progress.curves) + 1
        self._written, self._cost_seconds = time.monotonic(), 0.0
        for epoch in range(first, self.run.epochs + 1):
            self.measurements.epoch = epoch
            entry, diverged = self._train_epoch(epoch, "warm_up" if epoch == first else "steady")
            on_epoch(entry)
            if epoch == first and self.run.trainer.device == "gpu":
                self._adapter.check_gpu_memory()
            if diverged:
                return diverged
            if epoch < self.run.epochs:
                self._checkpoint_if_due(epoch)
        return None

    def _train_epoch(self, epoch: int, phase: str) -> tuple[dict, dict | None]:
        """Train one epoch. Returns (its entry in the curves, where its loss stopped being finite or None).

        phase: "warm_up" or "steady".
        """
        measurements = self.measurements
        feed, done = self._feed(epoch), measurements.progress.unfinished.steps
        if not done and self.resolved.epochs_before_optimizer(epoch, self.run.epochs) == epoch - 1 > 0:
            with self.phase_times.phase("build", self._adapter.synchronize):
                self._adapter.restart_optimizer(self._built)
        if self._audited and not done:
            with self.phase_times.phase("checkpoint"):
                self._audited.begin(epoch)
        if self._stream:
            self._pace.begin_epoch(epoch, done)
        if not done:
            self._ranks_check.before_epoch(epoch, feed)
        for part in feed.parts(self._part_steps)[done // (self._part_steps or 1) :]:
            self._train_part(part, phase)
            unfinished = measurements.progress.unfinished
            if unfinished.steps == feed.steps or not np.isfinite(unfinished.losses).all():
                break
            if self.settings["evaluation_steps"]:
                with self.phase_times.phase("evaluation", self._adapter.synchronize):
                    measurements.add_step_evaluation(self._evaluate("test"))
            self._checkpoint_if_due(epoch - 1, unfinished.steps)
        with self.phase_times.phase("evaluation", self._adapter.synchronize):
            evaluations = {split: self._evaluate(split) for split in self.resolved.recipe.evaluated_splits}
        progress = measurements.progress
        losses = np.array(progress.unfinished.losses)
        diverged = divergence(epoch, progress.steps - len(losses), losses, progress.last_loss, evaluations)
        if self._audited and not diverged:
            with self.phase_times.phase("checkpoint"):
                progress.audit = self._audited.end(epoch)
        weights_sha256 = None if diverged else self._ranks_check.after_epoch(epoch)
        return measurements.add_epoch(feed, phase, evaluations, weights_sha256), diverged

    @property
    def _part_steps(self) -> int | None:
        """Number of steps of a part of an epoch; None if an epoch has one part."""
        return part_steps(self.settings, self._stream is not None)

    def _train_part(self, part: EpochFeed, phase: str) -> None:
        adapter, measurements = self._adapter, self.measurements
        joules = measurements.meter.joules()
        waited_seconds = self._stream.waiting_seconds if self._stream else 0.0
        with self.phase_times.phase(phase, self._settle) as clock:
            (came, _), began, cpu_seconds = self._settled, time.monotonic(), time.process_time()
            losses = adapter.train_epoch(part)
        ended = time.monotonic()
        done, cpu_seconds_then = self._settled
        share_losses = getattr(adapter, "share_losses", None)
        keep_locks()
        self._threads.after(measurements.epoch or 0)
        measurements.add_energy(joules)
        self._check.after(clock.seconds)
        measurements.count(adapter.counted(), part)
        waiting_seconds = self._stream.waiting_seconds - waited_seconds if self._stream else None
        moments, cpu_seconds = (came, began, done, ended), cpu_seconds_then - cpu_seconds
        measurements.add_part(Part(losses, share_losses, clock.seconds, waiting_seconds, moments, cpu_seconds))

    def _settle(self) -> None:
        """Wait for the device and the other ranks: between two such moments passes the time of the slowest rank."""
        self._adapter.synchronize()
        self._settled = time.monotonic(), time.process_time()
        self._ranks.wait()

    def _evaluate(self, split: str) -> Evaluation:
        return self._ranks.from_first(lambda: self._evaluate_here(split))

    def _evaluate_here(self, split: str) -> Evaluation:
        """Return loss and accuracies over a split. On the test split, score the record's texts, too."""
        logits, labels = self._adapter.predict(split), self._labels[split]
        self._adapter.check_precision("prediction", {split: logits})
        if split == "test":
            self.measurements.score_texts(logits, labels)
        return evaluate(logits, labels)
