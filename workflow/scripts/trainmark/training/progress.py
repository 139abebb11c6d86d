"""Collects what a run measures (progress, phase times, device, energy) and builds the record from it."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from trainmark.datasets import prepared
from trainmark.errors import MeasurementError
from trainmark.machine import nvml
from trainmark.machine.disturbance import disturbance
from trainmark.machine.energy import open_meter
from trainmark.machine.memory import peak_host_mib
from trainmark.machine.provenance import describe_job, describe_session
from trainmark.machine.watch import Watch
from trainmark.plan.dependencies import recipe_values
from trainmark.plan.run import Run
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.recipe import DTYPE, Recipe, merged_input, resolve_batch_size, seen_shape
from trainmark.records.inputs import inputs_of
from trainmark.records.record import SCHEMA_VERSION, encode_loss
from trainmark.records.result import result
from trainmark.training.checkpoints import identity_of
from trainmark.training.job import Job
from trainmark.training.phases import PhaseTimes
from trainmark.training.status import Evaluations, score_first_texts


@dataclass
class Progress:
    """What a run has measured so far, as JSON values. A checkpoint holds it beside the adapter's state.

    Fields that are also keys of the record are described in record.schema.json.

    steps: number of steps trained.
    last_loss: loss of the last step.
    training_joules: energy of the epochs whose energy was measured.
    energy_reason: why the energy of some epoch was not measured; training_joules is then incomplete.
    """

    curves: list[dict] = field(default_factory=list)
    step_losses: list[float | str] = field(default_factory=list)
    scored_texts: list[dict] = field(default_factory=list)
    steps: int = 0
    last_loss: float | None = None
    first_step_seconds: float | None = None
    peak_host_mib: float = 0.0
    peak_device_mib: float | None = None
    training_joules: float = 0.0
    energy_reason: str | None = None
    sessions: list[dict] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=lambda: {"samples": 0, "batches": 0, "updates": 0})
    initial_evaluation: dict | None = None
    machine: list[dict] = field(default_factory=list)


class RunMeasurements:
    """Collects the measurements of a run while it trains.

    settings: the experiment's settings by key, as in the config (described in config/schema.yaml).
    batch_size: samples per step; None for the whole training set.
    input: the transform of stored images; None if the network takes token ids.
    training_samples: number of samples in the training split.
    epoch: the current epoch; None before the first one.
    provenance: as in the record; `Training` adds the device and the versions when they are known.
    """

    def __init__(self, run: Run, recipe: Recipe, settings: Mapping, job: Job, phase_times: PhaseTimes) -> None:
        manifest = prepared.read_manifest(job.dataset_folder)
        self.batch_size = resolve_batch_size(recipe, settings["batch_size"])
        self.input = merged_input(recipe, settings["input"])
        input_shape = seen_shape(self.input, manifest["sample_shape"])
        self.phase_times = phase_times
        self.training_samples = manifest["samples"]["train"]
        self.architecture = recipe.architecture(input_shape, manifest["classes"])
        self.progress = Progress()
        self.epoch: int | None = None
        self.meter = open_meter(run.device, job.device_lock.cpus, job.device_lock.gpu)
        self.watch = Watch(job.device_lock.cpus, job.device_lock.gpu)
        self._job = job
        self._run = {"id": run.id, **asdict(run), "workers": 1, "loop": "stock"}
        self._settings = self._settings_in_record(recipe, settings)
        self._max_step_losses: int = settings["step_losses"]
        self._class_names = manifest["class_names"]
        self._dataset = {
            "name": run.dataset,
            "content_sha256": manifest["content_sha256"],
            "samples": manifest["samples"],
        }
        self._inputs = inputs_of(recipe_values(recipe), self._settings, self._dataset, job.mean_file, job.code)
        self.provenance = {
            **describe_job(len(job.device_lock.cpus)),
            "device": None,
            "gpu": nvml.describe(job.device_lock.gpu) if job.device_lock.gpu else None,
            "versions": {},
            "code": job.code,
        }

    def _settings_in_record(self, recipe: Recipe, settings: Mapping) -> dict:
        return {
            "seed": settings["seed"],
            "architecture": self.architecture.name,
            "parameters": self.architecture.parameter_count(),
            "dropout": self.architecture.has_dropout,
            "initializer": recipe.initializer,
            "optimizer": recipe.optimizer.as_dict(),
            "batch_size": min(self.batch_size or self.training_samples, self.training_samples),
            "dtype": DTYPE,
            "input": self.input and asdict(self.input),
            "experiment": dict(settings),
        }

    # --- resuming -----------------------------------------------------------------------------------------------

    def identity(self, feed_sha256: str) -> str:
        """Identify the run by all that decides its result. Only checkpoints with this identity are resumed from.

        feed_sha256: digest of the first epoch's feed.
        """
        code, versions = self._job.code["sha256"], self.provenance["versions"]
        return identity_of(self._run_and_inputs() | {"code": code, "versions": versions, "feed": feed_sha256})

    def is_of_this_run(self, record: Mapping) -> bool:
        """Whether a record belongs to this run: same settings, data, code and installed packages."""
        expected = json.loads(json.dumps(self._run_and_inputs()))
        same_code = all(record["provenance"][key] == self.provenance[key] for key in ("code", "environment"))
        return same_code and expected == {key: record[key] for key in expected}

    def _run_and_inputs(self) -> dict:
        return {"run": self._run, "settings": self._settings, "dataset": self._dataset, "inputs": self._inputs}

    def begin(self, first_step_seconds: float) -> None:
        """Record that this process trains the run from its first epoch."""
        self.progress.first_step_seconds = first_step_seconds
        self.progress.sessions = [self._session(1, 0.0)]
        self.progress.machine = self.watch.after(0, force=True)

    def snapshot(self, device_mib: float | None) -> dict:
        """Return the progress and the phase times so far, for a checkpoint. device_mib: peak GPU memory so far."""
        self.progress.sessions[-1]["held_seconds"][1] = time.monotonic()
        self._note_peaks(device_mib)
        self._read_watch()
        return asdict(self.progress) | {"phases_seconds": self.phase_times.until_now()[0]}

    def resume(self, epoch: int, snapshot: Mapping) -> None:
        """Continue from the `snapshot` that an earlier process took after `epoch`. Restart time is in no phase."""
        self.progress = Progress(**{name: snapshot[name] for name in Progress.__dataclass_fields__})
        restart_seconds = self.phase_times.resume(snapshot["phases_seconds"])
        self.progress.sessions.append(self._session(epoch + 1, restart_seconds))
        self.watch.begin(epoch + 1)

    def _read_watch(self) -> None:
        """Add what the machine did up to now."""
        self.progress.machine += self.watch.after(self.epoch or 0, force=True)

    def _note_peaks(self, device_mib: float | None) -> None:
        """Update the peaks of memory, over all processes of the run."""
        progress = self.progress
        progress.peak_host_mib = max(progress.peak_host_mib, peak_host_mib())
        progress.peak_device_mib = max(filter(None, (progress.peak_device_mib, device_mib)), default=device_mib)

    def _session(self, first_epoch: int, restart_seconds: float) -> dict:
        """An entry of `sessions` for this process, as in the record."""
        held = describe_session(self.provenance, self._job.device_lock)
        return held | {"call": self._job.call, "first_epoch": first_epoch, "restart_seconds": restart_seconds}

    # --- epochs -------------------------------------------------------------------------------------------------

    def add_energy(self, before_joules: float | None) -> None:
        """Add the energy used since the meter read `before_joules`."""
        now_joules = self.meter.joules()
        if before_joules is None or now_joules is None:
            self.progress.energy_reason = self.progress.energy_reason or self.meter.reason
        else:
            self.progress.training_joules += now_joules - before_joules

    def note_initial_evaluation(self, loss: float, accuracy: float) -> None:
        """Record the mean cross entropy and the accuracy on the test split before training."""
        self.progress.initial_evaluation = {"loss": encode_loss(loss), "accuracy": accuracy}

    def count(self, counted: Mapping[str, int], feed: EpochFeed) -> None:
        """Add the framework's own counts of an epoch. Raises MeasurementError if they differ from the feed's."""
        if wrong := feed.wrong_counts(counted, self.progress.steps + feed.steps):
            raise MeasurementError(f"the framework {wrong} in epoch {self.epoch}: it did not train what it was given")
        earlier = self.progress.counted | {"updates": 0}  # a framework counts its updates over all epochs
        self.progress.counted = {name: earlier[name] + counted[name] for name in earlier}

    def add_epoch(
        self, feed: EpochFeed, part: str, seconds: float, losses: np.ndarray, evaluations: Evaluations
    ) -> dict:
        """Add an epoch to the progress and return its entry in the curves.

        part: "warm_up" or "steady". seconds: training time of the epoch. losses: loss of each step, (steps,).
        """
        progress = self.progress
        entry = {
            "epoch": self.epoch,
            "part": part,
            "seconds": seconds,
            "batch_loss": encode_loss(float(np.average(losses, weights=feed.batch_sizes()))),
            "evaluations": {
                split: {"loss": encode_loss(loss), "accuracy": accuracy}
                for split, (loss, accuracy) in evaluations.items()
            },
        }
        progress.curves.append(entry)
        missing = self._max_step_losses - len(progress.step_losses)
        progress.step_losses += [encode_loss(float(loss)) for loss in losses[: max(missing, 0)]]
        progress.steps += len(losses)
        progress.last_loss = float(losses[-1])
        progress.machine += self.watch.after(self.epoch or 0)
        return entry

    def score_texts(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Score the first test text of each class. Does nothing for images."""
        if self.architecture.takes_tokens:
            self.progress.scored_texts = score_first_texts(logits, labels, self._class_names)

    # --- the record ---------------------------------------------------------------------------------------------

    def record(
        self,
        diverged: dict | None = None,
        out_of_memory: dict | None = None,
        device_mib: float | None = None,
        weights: dict | None = None,
    ) -> dict:
        """Build the record of a run that ends now.

        diverged, out_of_memory: why the run was ended early, as in the record; None otherwise.
        device_mib: peak GPU memory.
        weights: the value returned by `kept_weights.write_weights`.
        """
        progress, job = self.progress, self._job
        curves = list(progress.curves)  # copied once: the memory watch may build a record in its own thread
        sessions = [dict(session) for session in progress.sessions] or [self._session(1, 0.0)]
        sessions[-1]["held_seconds"] = [job.device_lock.held_from, time.monotonic()]
        if job.device_lock.gpu:
            self.provenance["gpu"] |= {"at_end": nvml.state(job.device_lock.gpu)}
        self._note_peaks(device_mib)
        self._read_watch()
        self.watch.close()
        phases_seconds, wall_seconds = self.phase_times.until_now()
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self._run,
            "order": job.order,
            "settings": self._settings,
            "dataset": self._dataset,
            "inputs": self._inputs,
            "status": "diverged" if diverged else "out_of_memory" if out_of_memory else "ok",
            "diverged": diverged,
            "out_of_memory": out_of_memory,
            "curves": curves,
            "step_losses": list(progress.step_losses),
            "initial_evaluation": progress.initial_evaluation,
            "counted": dict(progress.counted),
            "result": result(curves, progress.first_step_seconds, self.training_samples),
            "scored_texts": list(progress.scored_texts),
            "weights": weights,
            "phases_seconds": phases_seconds,
            "wall_seconds": wall_seconds,
            "resumes": len(sessions) - 1,
            "sessions": sessions,
            "machine": list(progress.machine),
            "disturbed": disturbance(progress.machine, len(job.device_lock.cpus)),
            "energy": self._energy(),
            "memory": {"peak_host_mib": progress.peak_host_mib, "peak_device_mib": progress.peak_device_mib},
            "provenance": dict(self.provenance),
        }

    def _energy(self) -> dict:
        reason = self.progress.energy_reason or self.meter.reason
        return {
            "training_joules": None if reason else self.progress.training_joules,
            "source": None if reason else self.meter.source,
            "reason": reason,
        }
