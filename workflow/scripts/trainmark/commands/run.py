"""Runs a command recipe once: from its files to its record."""

import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.commands.curves import curves_of
from trainmark.commands.entries import Chunks, lines_of
from trainmark.commands.followed import LARGEST_BYTES
from trainmark.commands.launch import environment_of, interpreter_of, scalars_of, variables_of, words_of
from trainmark.commands.metrics import read_entries
from trainmark.commands.process import CommandProcess, Ran, too_large
from trainmark.console import CONTROLS
from trainmark.errors import CommandError
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import digest_of
from trainmark.machine import nvml
from trainmark.machine.disturbance import disturbance, with_programs
from trainmark.machine.energy import open_meter
from trainmark.machine.locks import DeviceLock, keep_locks
from trainmark.machine.memory import peak_children_mib
from trainmark.machine.provenance import describe_job, describe_session
from trainmark.machine.watch import Watch
from trainmark.plan.plan_file import TrainerJob
from trainmark.plan.run import Run
from trainmark.recipes.command import LINE_FORMATS, matches_of, metrics_file
from trainmark.records.record import SCHEMA_VERSION
from trainmark.records.result import command_result
from trainmark.training.phases import PhaseTimes

LAST_LINE_CHARACTERS = 200

CPU_SHARE = 1.05
"""Largest share of its CPUs' time that a command may use; with more it computed on other CPUs, too."""


@dataclass(frozen=True)
class CommandJob:
    """What a run of a command needs besides its recipe.

    folder: where the command runs; it is emptied first.
    image: the container image in which it runs; None for none.
    planned, order, call: as for a training (`training.job.Job`). The fetched files lie beside the list of sources.
    """

    folder: Path
    image: str | None
    planned: TrainerJob
    device_lock: DeviceLock
    order: dict | None
    call: str | None

    @property
    def files_folder(self) -> Path:
        """The folder of the fetched files, each under its path."""
        assert self.planned.sources is not None, "a command has sources"
        return self.planned.sources.with_name("files")


class CommandRun:
    """One run of a command recipe."""

    def __init__(self, run: Run, job: CommandJob, phase_times: PhaseTimes) -> None:
        self.run, self.job, self.phase_times = run, job, phase_times
        self.command, settings = job.planned.inputs["recipe"], job.planned.settings
        self._limit_mib: float | None = settings["memory_limit_mib"]
        self._folder = job.folder.resolve()
        self._fetched = [self._folder / file["path"] for file in self.command["files"]]
        self._seed: int = settings["seed"] + run.repeat - 1
        self._run = run.values
        self._settings = dict(settings)
        files = {file["path"]: file["sha256"] for file in self.command["files"]}
        self._dataset: dict[str, Any] = {
            "name": run.dataset,
            "content_sha256": digest_of(files),
            "samples": {},
            "mean_sha256": None,
        }
        self._inputs = job.planned.inputs
        self._provenance = {**describe_job(len(job.device_lock.cpus)), "versions": {}, "code": job.planned.code}
        self._process: CommandProcess | None = None

    def is_of_this_run(self, record: Mapping) -> bool:
        """Whether a record belongs to this run: the same run, command, files, settings and code."""
        same_code = record["provenance"]["code"] == self._provenance["code"]
        return bool(same_code and record["run"] == self._run and record["inputs"] == self._inputs)

    def stop(self) -> None:
        """Stop the command, if it runs, with everything that it started. It may be called in a signal handler."""
        if self._process:
            self._process.stop()

    def measure(self) -> dict:
        """Run the command and return the record.

        Divergence, and more memory than memory_limit_mib, are results. Raises CommandError for a command that fails,
        leaves processes behind, or does not report its epochs.
        """
        cpus, gpu = self.job.device_lock.cpus, self.job.device_lock.gpu
        with self.phase_times.phase("data_load"):
            self._place_files()
        with self.phase_times.phase("import"):
            arguments, image = (self.command, self.run, self._seed, len(cpus), self._folder), self.job.image
            variables = variables_of(*arguments)
            words = words_of(*arguments, image)
            interpreter = interpreter_of(words, image, named=bool(self.command["environment"] or image))
            self._provenance |= environment_of(interpreter, variables, self._folder, image)
        self._note_device(gpu)
        self._process = CommandProcess(words, self._folder, variables, self._followed(), self._limit_mib)
        meter, watch = open_meter(gpu), Watch(cpus, gpu)
        before_joules = meter.joules()
        watch.begin(1)
        ran = self._process.run()
        machine = watch.after(self.run.epochs, force=True)
        machine[0]["stopped_seconds"] = (machine[0]["stopped_seconds"] or 0.0) + ran.stopped_seconds
        programs = watch.other_programs()
        watch.close()
        now_joules = meter.joules()
        keep_locks()
        reason = meter.reason or meter.too_coarse(1, ran.end - ran.start)
        joules = None if reason else now_joules - before_joules  # type: ignore[operator]
        energy = {"training_joules": joules, "source": None if reason else meter.source, "reason": reason}
        if gpu:
            self._provenance["gpu"] |= {"at_end": nvml.state(gpu)}
        metrics, path = self.command["metrics"], self._metrics_path()
        text = ran.followed if self._followed() else ran.output
        if ran.code == 0 and path and path.exists() and metrics["format"] == "tensorboard":
            text = scalars_of(interpreter, path, variables, self._folder)
        return self._record(ran, text, machine, programs, energy)

    # --- before the command -------------------------------------------------------------------------------------

    def _place_files(self) -> None:
        """Make the folder anew, with a copy of each fetched file. Raises CommandError if a file was changed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for file in self.command["files"]:
            copy = self._folder / file["path"]
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.job.files_folder / file["path"], copy)
            if sha256_of(copy) != file["sha256"]:
                raise CommandError(
                    f"{self.job.files_folder / file['path']} was changed after it was fetched; delete the folder "
                    f"{self.job.files_folder.parent}, and snakemake fetches it again"
                )

    def _note_device(self, gpu: str | None) -> None:
        described = nvml.describe(gpu) if gpu else None
        name = described.get("name") if described else self._provenance["cpu_model"]
        self._provenance["device"] = {"kind": self.run.trainer.device, "name": name or "unknown"}
        self._provenance["gpu"] = described | {"at_start": nvml.state(gpu)} if described and gpu else None

    def _metrics_path(self) -> Path | None:
        """Return the file that the command writes, or the pattern of its path as long as not exactly one matches it."""
        file = metrics_file(self.command["metrics"])
        matches = matches_of(file, self._folder, self._fetched) if file else []
        return matches[0] if len(matches) == 1 else self._folder / file if file else None

    def _followed(self) -> str | None:
        """Return the file that tells the times of the epochs while it is written, or its pattern."""
        metrics = self.command["metrics"]
        return metrics_file(metrics) if metrics["format"] in LINE_FORMATS else None

    # --- after the command --------------------------------------------------------------------------------------

    def _record(self, ran: Ran, text: Chunks, machine: list[dict], programs: list[dict], energy: dict) -> dict:
        exceeded = None
        curves: list[dict] = []
        diverged, training_seconds = None, 0.0
        if ran.over_mib is None:
            _check_ended(ran)
            curves, diverged, training_seconds = self._curves(ran, text)
            for file in self._fetched:  # what the command wrote stays
                file.unlink(missing_ok=True)
        else:
            exceeded = {
                "phase": "other",
                "epoch": None,
                "resident_mib": ran.over_mib,
                "message": f"{ran.over_mib:.1f} MiB exceed the limit of {self._limit_mib:g} MiB",
            }
        cpus = self.job.device_lock.cpus
        _check_cpus(machine, len(cpus))
        steady_seconds = sum(entry["seconds"] for entry in curves if entry["part"] == "steady")
        self.phase_times.add("warm_up", training_seconds - steady_seconds)
        self.phase_times.add("steady", steady_seconds)
        phases_seconds, wall_seconds = self.phase_times.until_now()
        session = describe_session(self._provenance, self.job.device_lock)
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self._run,
            "order": self.job.order,
            "settings": self._settings,
            "dataset": self._dataset,
            "inputs": self._inputs,
            "network": None,
            "status": "diverged" if diverged else "out_of_memory" if exceeded else "ok",
            "diverged": diverged,
            "out_of_memory": exceeded,
            "curves": curves,
            "epochs": [],
            "initial_evaluation": None,
            "step_evaluations": [],
            "counted": dict.fromkeys(("samples", "batches", "updates"), 0),
            "result": command_result(curves, training_seconds),
            "scored_texts": [],
            "weights": None,
            "phases_seconds": phases_seconds,
            "wall_seconds": wall_seconds,
            "compilation_cache": None,
            "resumes": 0,
            "sessions": [session | {"call": self.job.call, "first_epoch": 1, "restart_seconds": 0.0}],
            "machine": machine,
            "disturbed": with_programs(disturbance(machine, len(cpus)), programs),
            "other_attempts": [],
            "energy": energy,
            "memory": {"peak_host_mib": max(peak_children_mib(), ran.over_mib or 0.0), "peak_device_mib": None},
            "peak": None,
            "provenance": dict(self._provenance),
        }

    def _curves(self, ran: Ran, text: Chunks) -> tuple[list[dict], dict | None, float]:
        metrics, path = self.command["metrics"], self._metrics_path()
        if path and not path.exists():
            raise CommandError(self._no_metrics(str(metrics_file(metrics))))
        if path and path.is_dir() and metrics["format"] != "tensorboard":
            raise CommandError(f"{path.relative_to(self._folder)} is a folder: name a file in it in metrics.file")
        if path and path.is_file() and path.stat().st_size > LARGEST_BYTES:
            raise CommandError(too_large(path))
        entries = read_entries(metrics, text, path)
        return curves_of(metrics, entries, self.run.epochs, ran.start, ran.end)

    def _no_metrics(self, file: str) -> str:
        """Say that the file of the key metrics.file was not written, or that several match it, and what was written."""
        if matches := matches_of(file, self._folder, self._fetched):
            listed = _listed(matches, self._folder)
            return f"the command wrote {listed}, which match metrics.file, {file}: let it match one"
        written = [path for path in sorted(self._folder.rglob("*")) if path.is_file() and path not in self._fetched]
        named = [path for path in written if path.name == Path(file).name]
        found = _listed(named or written, self._folder)
        return (
            f"the command did not write {file}, but {found}: name one in metrics.file, or a pattern such as out/*/a.csv"
        )


def _listed(paths: Sequence[Path], folder: Path) -> str:
    """Name the first paths of a list."""
    names = [path.relative_to(folder).as_posix() for path in paths[:3]]
    return ", ".join(names + ["..."] * (len(paths) > 3)) or "no file"


def _check_ended(ran: Ran) -> None:
    """Raise CommandError if the command failed or left processes behind."""
    lines = (CONTROLS.sub("", line).strip() for _, line in reversed([*lines_of(ran.output[-8:])]))
    last = next(filter(None, lines), "")
    said = f"; its last line: {last[:LAST_LINE_CHARACTERS]}" if last else "; it printed nothing"
    if ran.code is not None and ran.code < 0:
        raise CommandError(f"the command was ended by {signal.Signals(-ran.code).name}{said}")
    if ran.code:
        raise CommandError(f"the command ended with exit status {ran.code}{said}")
    if ran.left:
        names = ", ".join(ran.left)
        raise CommandError(
            f"the command ended, but left processes at work, which were stopped ({names}): a command must wait for "
            "what it starts, or its times are not those of its training"
        )


def _check_cpus(machine: Sequence[Mapping], cpus: int) -> None:
    """Raise CommandError if the command computed on more CPUs than it holds: it changed its own affinity."""
    used, seconds = (sum(stretch[key] for stretch in machine) for key in ("cpu_seconds", "seconds"))
    if used > CPU_SHARE * seconds * cpus + 0.1:
        held = f"{cpus} CPU{'s' if cpus > 1 else ''}"
        raise CommandError(
            f"the command used {used:.1f} s of CPU time in {seconds:.1f} s, but holds {held}: it changed its "
            "CPU affinity, and may have disturbed other runs; let it keep its affinity, and start {threads} threads"
        )
