"""Collects what a run measures (progress, phase times, device, energy) and builds the record from it."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from trainmark.errors import MeasurementError
from trainmark.files.checksums import sha256_of
from trainmark.machine import nvml
from trainmark.machine.disturbance import disturbance, disturbance_of, with_programs
from trainmark.machine.energy import open_meter
from trainmark.machine.memory import peak_host_mib
from trainmark.machine.provenance import describe_job, describe_session
from trainmark.machine.watch import Watch
from trainmark.networks.layers import training_flops
from trainmark.plan.run import Run
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights, sha256_of_weights
from trainmark.recipes.outputs import Evaluation
from trainmark.recipes.recipe import DTYPE
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.records.inputs import check_initial_weights
from trainmark.records.record import SCHEMA_VERSION, encode_loss
from trainmark.records.result import peak_shares, result
from trainmark.records.step_losses import encode_step_losses
from trainmark.training.checkpoints import identity_of
from trainmark.training.job import Job
from trainmark.training.phases import PhaseTimes
from trainmark.training.status import Evaluations, encode_evaluation, score_first_texts


@dataclass
class Unfinished:
    """What the current epoch has measured so far.

    losses: loss of each step. seconds: training time. waiting_seconds: time for which the training waited for batches;
    None if its inputs are in memory.
    moments, cpu_seconds, share_losses: see `epochs` in record.schema.json.
    """

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    waiting_seconds: float | None = None
    moments: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    share_losses: list[float] | None = None

    @property
    def steps(self) -> int:
        """Number of steps trained."""
        return len(self.losses)


@dataclass
class Part:
    """A trained part of an epoch.

    losses: loss of each step, (steps,). share_losses: those of the rank's share alone; None with one worker, and where
        the engine has none.
    seconds, waiting_seconds: see `Unfinished`.
    moments: when this rank came, began, was done and went on, see `epochs` in record.schema.json.
    """

    losses: np.ndarray
    share_losses: np.ndarray | None
    seconds: float
    waiting_seconds: float | None
    moments: Sequence[float]
    cpu_seconds: float


@dataclass
class Progress:
    """What a run has measured so far, as JSON values. A checkpoint holds it beside the adapter's state.

    Fields that are also keys of the record are described in record.schema.json.

    steps: number of steps trained.
    parts: number of parts of epochs trained. The energy is read before and after each.
    training_joules: energy of the epochs whose energy was measured.
    energy_reason: why the energy of some epoch was not measured; training_joules is then incomplete.
    """

    curves: list[dict] = field(default_factory=list)
    epochs: list[dict] = field(default_factory=list)
    scored_texts: list[dict] = field(default_factory=list)
    steps: int = 0
    parts: int = 0
    last_loss: float | None = None
    first_step_seconds: float | None = None
    compilation_cache: dict[str, int] | None = None
    peak_host_mib: float = 0.0
    peak_device_mib: float | None = None
    training_joules: float = 0.0
    energy_reason: str | None = None
    sessions: list[dict] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=lambda: {"samples": 0, "batches": 0, "updates": 0})
    initial_evaluation: dict | None = None
    step_evaluations: list[dict] = field(default_factory=list)
    machine: list[dict] = field(default_factory=list)
    audit: dict | None = None
    unfinished: Unfinished = field(default_factory=Unfinished)

    @property
    def training_seconds(self) -> float:
        """Training time so far."""
        return float(sum(entry["seconds"] for entry in self.curves) + self.unfinished.seconds)


class RunMeasurements:
    """Collects the measurements of a run while it trains.

    epoch: the current epoch; None before the first one.
    provenance: as in the record; `Training` adds the device and the versions when they are known.
    """

    def __init__(self, run: Run, resolved: ResolvedTraining, job: Job, phase_times: PhaseTimes) -> None:
        self.phase_times = phase_times
        self._resolved, manifest = resolved, resolved.manifest
        self.progress = Progress()
        self.epoch: int | None = None
        self.meter = open_meter(job.device_lock.gpu)
        self.watch = Watch(job.device_lock.cpus, job.device_lock.gpu)
        self._other_programs: list[dict] = []
        self._job = job
        self._run = run.values
        self._settings = dict(resolved.settings)
        self._network = {
            "architecture": resolved.architecture.name,
            "parameters": resolved.architecture.parameter_count(),
            "dropout": resolved.architecture.has_dropout,
            "dtype": DTYPE,
            "initial_weights_sha256": None,
        }
        self._class_names = manifest["class_names"]
        self._dataset = {
            "name": run.dataset,
            "content_sha256": manifest["content_sha256"],
            "samples": manifest["samples"],
            "mean_sha256": sha256_of(job.planned.mean) if job.planned.mean else None,
        }
        self._inputs = job.planned.inputs
        check_initial_weights(initial_weights_file(resolved.settings), self._inputs["initial_weights_sha256"])
        self.provenance = {
            **describe_job(job.threads),
            "device": None,
            "gpu": nvml.describe(job.device_lock.gpu) if job.device_lock.gpu else None,
            "versions": {},
            "code": job.planned.code,
        }

    @property
    def trained(self) -> dict:
        """What the trained weights are of, to be stored with them."""
        return {"classes": self._class_names, "recipe": self._run["recipe"], "dataset": self._run["dataset"]}

    # --- resuming -----------------------------------------------------------------------------------------------

    def identity(self, feed_sha256: str) -> str:
        """Identify the run by all that decides its result. Only checkpoints with this identity are resumed from.

        feed_sha256: digest of the first epoch's feed.
        """
        code, versions = self._job.planned.code["sha256"], self.provenance["versions"]
        return identity_of(self._run_and_inputs() | {"code": code, "versions": versions, "feed": feed_sha256})

    def is_of_this_run(self, record: Mapping) -> bool:
        """Whether a record belongs to this run: same settings, data, code and installed packages."""
        expected = json.loads(json.dumps(self._run_and_inputs()))
        same_code = all(record["provenance"][key] == self.provenance[key] for key in ("code", "environment"))
        return same_code and expected == {key: record[key] for key in expected}

    def _run_and_inputs(self) -> dict:
        return {"run": self._run, "settings": self._settings, "dataset": self._dataset, "inputs": self._inputs}

    def begin(self, first_step_seconds: float, programs: Mapping[str, int] | None) -> None:
        """Record that this process trains the run from its first epoch. programs: counts of the compilation cache."""
        self.progress.compilation_cache = None if programs is None else dict(programs)
        self.progress.first_step_seconds = first_step_seconds
        self.progress.sessions = [self._session(1, 0.0)]
        self.progress.machine = self.watch.after(0, force=True)

    def snapshot(self, device_mib: float | None) -> dict:
        """Return the progress and the phase times so far, for a checkpoint. device_mib: peak GPU memory so far."""
        self._note_peaks(device_mib)
        self._read_watch()
        self.progress.sessions[-1]["held_seconds"][1] = time.monotonic()  # not before what the watch has counted
        return asdict(self.progress) | {"phases_seconds": self.phase_times.until_now()[0]}

    def resume(self, epoch: int, snapshot: Mapping) -> None:
        """Continue from the `snapshot` that an earlier process took after `epoch`. Restart time is in no phase."""
        self.progress = Progress(**{name: snapshot[name] for name in Progress.__dataclass_fields__})
        self.progress.unfinished = Unfinished(**snapshot["unfinished"] | {"moments": []})  # of another clock, perhaps
        restart_seconds = self.phase_times.resume(snapshot["phases_seconds"])
        if self.progress.sessions[-1]["first_epoch"] != epoch + 1:  # an epoch in two processes is a warm-up
            self.phase_times.move("steady", "warm_up", self.progress.unfinished.seconds)
        self.progress.sessions.append(self._session(epoch + 1, restart_seconds))
        self.watch.begin(epoch + 1)

    def _read_watch(self) -> None:
        within = self.progress.unfinished.steps > 0
        self.progress.machine += self.watch.after(self.epoch or 0, force=True, within=within)

    def _note_peaks(self, device_mib: float | None) -> None:
        progress = self.progress
        progress.peak_host_mib = max(progress.peak_host_mib, peak_host_mib())
        progress.peak_device_mib = max(filter(None, (progress.peak_device_mib, device_mib)), default=device_mib)

    def _session(self, first_epoch: int, restart_seconds: float) -> dict:
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

    def note_initial_weights(self, weights: Weights) -> None:
        """Record the digest of the weights that the framework was built with, as it returns them."""
        self._network["initial_weights_sha256"] = sha256_of_weights(weights)

    def note_initial_evaluation(self, evaluation: Evaluation) -> None:
        """Record the evaluation of the test split before training."""
        self.progress.initial_evaluation = encode_evaluation(evaluation)

    def count(self, counted: Mapping[str, int], feed: EpochFeed) -> None:
        """Add the framework's own counts of an epoch. Raises MeasurementError if they differ from the feed's."""
        assert self.epoch is not None, "the framework counts after training"
        before = self._resolved.epochs_before_optimizer(self.epoch, self._run["epochs"]) * self._resolved.epoch_steps
        if wrong := feed.wrong_counts(counted, self.progress.steps - before + feed.steps):
            raise MeasurementError(f"the framework {wrong} in epoch {self.epoch}: it did not train what it was given")
        earlier = self.progress.counted | {"updates": before}  # an optimizer counts its updates over all epochs
        self.progress.counted = {name: earlier[name] + counted[name] for name in earlier}

    def add_part(self, part: Part) -> None:
        """Add a part of the current epoch, which may be all of it."""
        unfinished = self.progress.unfinished
        unfinished.losses += part.losses.tolist()
        unfinished.seconds += part.seconds
        if part.waiting_seconds is not None:
            unfinished.waiting_seconds = (unfinished.waiting_seconds or 0.0) + part.waiting_seconds
        if part.share_losses is not None:
            unfinished.share_losses = (unfinished.share_losses or []) + part.share_losses.tolist()
        unfinished.moments = [*(unfinished.moments or part.moments)[:2], *part.moments[2:]]
        unfinished.cpu_seconds += part.cpu_seconds
        self.progress.steps += len(part.losses)
        self.progress.parts += 1

    def add_step_evaluation(self, evaluation: Evaluation) -> None:
        """Add an evaluation of the test split within the current epoch."""
        progress = self.progress
        where = {"epoch": self.epoch, "step": progress.steps, "training_seconds": progress.training_seconds}
        progress.step_evaluations.append(where | encode_evaluation(evaluation))

    def add_epoch(self, feed: EpochFeed, part: str, evaluations: Evaluations, weights_sha256: str | None) -> dict:
        """Add the current epoch to the curves and return its entry.

        part: "warm_up" or "steady". weights_sha256: see `epochs` in record.schema.json.
        """
        progress, unfinished = self.progress, self.progress.unfinished
        weights = feed.batch_sizes()[: unfinished.steps]  # all steps, unless the run diverged
        entry = {
            "epoch": self.epoch,
            "part": part,
            "seconds": unfinished.seconds,
            "waiting_seconds": unfinished.waiting_seconds,
            "batches_sha256": feed.batches_sha256(),
            "batch_loss": encode_loss(float(np.average(unfinished.losses, weights=weights))),
            "step_losses": encode_step_losses(unfinished.losses),
            "evaluations": {split: encode_evaluation(evaluation) for split, evaluation in evaluations.items()},
        }
        progress.curves.append(entry)
        share_losses = unfinished.share_losses
        progress.epochs.append({
            "moments": unfinished.moments,
            "cpu_seconds": unfinished.cpu_seconds,
            "share_losses": None if share_losses is None else encode_step_losses(share_losses),
            "weights_sha256": weights_sha256,
        })  # fmt: skip
        progress.last_loss = unfinished.losses[-1]
        progress.unfinished = Unfinished()
        progress.machine += self.watch.after(self.epoch or 0)
        return entry

    def score_texts(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Score the first test text of each class. Does nothing for images."""
        if self._resolved.architecture.takes_tokens:
            self.progress.scored_texts = score_first_texts(logits, labels, self._class_names)

    def conditions_of_peak(self) -> dict:
        """Return what the peak depends on: the machine as it was booted, what the run holds of it, and the software."""
        session = describe_session(self.provenance, self._job.device_lock)
        return {
            **{key: session[key] for key in ("host", "boot_id", "cpu_model", "cpus", "gpu")},
            **{key: self._run[key] for key in ("framework", "device")},
            **{key: self.provenance[key] for key in ("threads", "versions", "variables")},
            "code": self._job.planned.code["shared"],  # not that of a network: all recipes share a peak
        }

    def share_of(self, peak: dict) -> dict:
        """Add to a measured peak the share that the training reached, and return `peak` of the record.

        Raises MeasurementError if the run was resumed on another machine, or with other settings: another peak.
        """
        sessions = self.progress.sessions
        if len({(one["host"], one["cpu_model"], len(one["cpus"]), *one["settings"].items()) for one in sessions}) > 1:
            raise MeasurementError("the run was trained on several machines, or with several settings of libraries")
        peak = peak | {"training_flops_per_sample": training_flops(self._resolved.architecture)}
        return peak | peak_shares(self.progress.curves, self._resolved.samples, peak)

    # --- the record ---------------------------------------------------------------------------------------------

    def end(self, device_mib: float | None) -> None:
        """Read memory, GPU and watch for the last time: what the process does from now on is no training.

        device_mib: peak GPU memory.
        """
        if self._job.device_lock.gpu:
            self.provenance["gpu"] |= {"at_end": nvml.state(self._job.device_lock.gpu)}
        self._note_peaks(device_mib)
        self._read_watch()
        if disturbance(self.progress.machine, len(self._job.device_lock.cpus)):
            self._other_programs = self.watch.other_programs()
        self.watch.close()

    def of_rank(self) -> dict:
        """Return what the record holds of this rank alone, after `end`, as an entry of `other_ranks`."""
        phases_seconds, wall_seconds = self.phase_times.until_now()
        return {
            "sessions": self._sessions(),
            "phases_seconds": phases_seconds,
            "wall_seconds": wall_seconds,
            "epochs": self.progress.epochs[: len(self.progress.curves)],
            "machine": list(self.progress.machine),
            "energy": self._energy(),
            "memory": self._memory(),
        }

    def record(
        self,
        diverged: dict | None = None,
        out_of_memory: dict | None = None,
        weights: dict | None = None,
        peak: dict | None = None,
        communication: dict | None = None,
        replays: list[dict] | None = None,
        other_ranks: Sequence[dict] = (),
    ) -> dict:
        """Build the record of a run, after `end`.

        diverged, out_of_memory: why the run was ended early, as in the record; None otherwise.
        weights: the value returned by `kept_weights.write_weights`.
        communication: the value returned by `communication.measure_communication`.
        replays: the value returned by `rank_check.RankCheck.replays`.
        other_ranks: `of_rank` of the ranks after this one.
        """
        progress, job = self.progress, self._job
        curves = list(progress.curves)  # copied once: the memory watch may build a record in its own thread
        of_this, of_sharing = self.of_rank(), {"communication": communication, "replays": replays}
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self._run,
            "order": job.order,
            "settings": self._settings,
            "dataset": self._dataset,
            "inputs": self._inputs,
            "network": self._network,
            "status": "diverged" if diverged else "out_of_memory" if out_of_memory else "ok",
            "diverged": diverged,
            "out_of_memory": out_of_memory,
            "curves": curves,
            "initial_evaluation": progress.initial_evaluation,
            "step_evaluations": list(progress.step_evaluations),
            "counted": dict(progress.counted),
            "result": result(curves, progress.first_step_seconds, self._resolved.samples),
            "scored_texts": list(progress.scored_texts),
            "weights": weights,
            "compilation_cache": progress.compilation_cache,
            "resumes": len(of_this["sessions"]) - 1,
            **of_this,
            **(of_all_ranks([of_this, *other_ranks]) | of_sharing if other_ranks else {}),
            "disturbed": with_programs(disturbance_of([of_this, *other_ranks]), self._other_programs),
            "other_attempts": [],
            "peak": peak,
            "provenance": dict(self.provenance),
        }

    def _sessions(self) -> list[dict]:
        sessions = [dict(session) for session in self.progress.sessions] or [self._session(1, 0.0)]
        sessions[-1]["held_seconds"] = [self._job.device_lock.held_from, time.monotonic()]
        return sessions

    def _memory(self) -> dict:
        return {"peak_host_mib": self.progress.peak_host_mib, "peak_device_mib": self.progress.peak_device_mib}

    def _energy(self) -> dict:
        progress = self.progress
        coarse = self.meter.too_coarse(progress.parts, progress.training_seconds)
        reason = progress.energy_reason or self.meter.reason or coarse
        return {
            "training_joules": None if reason else progress.training_joules,
            "source": None if reason else self.meter.source,
            "reason": reason,
        }


def of_all_ranks(ranks: Sequence[Mapping]) -> dict:
    """Return what the record of a run with several ranks holds of the others, and of all together.

    ranks: `RunMeasurements.of_rank` of each.
    """
    energies = [rank["energy"] for rank in ranks]
    unmeasured = next((energy for energy in energies if energy["reason"]), None)
    joules = sum(energy["training_joules"] or 0.0 for energy in energies)
    peaks = {
        key: max((rank["memory"][key] for rank in ranks if rank["memory"][key] is not None), default=None)
        for key in ranks[0]["memory"]
    }
    return {
        "other_ranks": list(ranks[1:]),
        "energy": unmeasured or energies[0] | {"training_joules": joules},
        "memory": peaks,
    }
