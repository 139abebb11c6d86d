"""What a person sees of a workflow while it runs: a line for each run, and on a terminal a progress bar.

Snakemake calls a `logging.Handler` for each of its messages. `WorkflowDisplay` takes the place of its handler for the
terminal: messages on jobs become our own lines, all others pass.
"""

import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from trainmark import errors
from trainmark.console import CLEAR_LINE, Terminal, in_words
from trainmark.plan.products import CERTIFICATES, RECORD_FILE
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER
from trainmark.records.sentences import run_sentence

REFRESH_SECONDS = 1.0
"""How often the bar is drawn again. Seldom: drawing takes time from the runs that are being timed."""

BAR_CHARACTERS = 20

LOG_TAIL_BYTES = 20_000
"""How much of a log is searched for the sentence that ends it."""

TITLES = {
    "download_dataset": "fetching {dataset}",
    "prepare_dataset": "preparing {dataset}",
    "pack_images": "packing the images of {dataset}",
    "compute_mean_image": "computing the mean image of {dataset}",
    "trace_training": "checking {framework} on {device} ({recipe} on {dataset})",
    "certify": "comparing all trainers ({recipe} on {dataset})",
    "train": "training {framework} on {device}, {epochs} epochs, repeat {repeat} ({recipe} on {dataset})",
    "evaluate_weights": "cross-evaluating with {framework} on {device} ({recipe} on {dataset})",
    "collect_records": "making the tables",
    "plot_figure": "drawing {figure} ({recipe} on {dataset})",
    "report": "writing the report",
}
"""What each rule's jobs do."""

WITH_OWN_BAR = {"download_dataset", "prepare_dataset", "pack_images", "compute_mean_image"}
"""Rules whose jobs show a progress bar of their own; ours is not drawn meanwhile."""

JOB_EVENTS = {"run_info", "job_started", "progress", "shellcmd", "group_info", "resources_info"}
"""Snakemake's messages on jobs that our own lines stand for, besides those that `WorkflowDisplay` handles."""

JOB_MESSAGES = ("Select jobs to execute", "Using shell", "Conda environments: ignored")
"""Beginnings of such messages without an event."""

RED, GREEN, YELLOW, PLAIN = (f"\x1b[{code}m" for code in (31, 32, 33, 0))


@dataclass
class Job:
    """A job under way. wildcards: of its output. log: its log file, None where the rule has none."""

    rule: str
    wildcards: Mapping[str, str]
    log: Path | None
    start: float = field(default_factory=time.monotonic)

    @property
    def title(self) -> str:
        """What the job does, in words."""
        title = TITLES.get(self.rule, self.rule).format_map(self.wildcards)
        return title.replace(" 1 epochs", " 1 epoch")

    def state(self) -> str:
        """What the log of a training job says last: that it waits, or which epoch is done. Empty for other jobs."""
        if self.rule != "train":
            return ""
        found = re.findall(r"^(waiting for its device|training|epoch \d+)\b", tail(self.log), re.MULTILINE)
        return f", {found[-1]}" if found and found[-1] != "training" else ""


@dataclass(frozen=True)
class Failure:
    """A job that failed: its wildcards, what it did and why it failed, in words."""

    wildcards: Mapping[str, str]
    title: str
    sentence: str


class WorkflowDisplay(logging.Handler):
    """The handler of Snakemake's messages for the terminal.

    order: ids of all runs, as they are trained.
    inner: Snakemake's own handler, which prints what is not ours to print.
    own_lines: whether our lines replace Snakemake's messages on jobs; else `inner` prints those too.
    colour: whether a terminal shows colours.
    """

    def __init__(
        self, order: Iterable[str], inner: logging.Handler, terminal: Terminal, *, own_lines: bool, colour: bool
    ) -> None:
        super().__init__()
        self._number = {run_id: number for number, run_id in enumerate(order, start=1)}
        self._inner, self._terminal = inner, terminal
        self._own_lines, self._colour = own_lines, colour and terminal.isatty()
        self._jobs: dict[int, Job] = {}
        self._to_train: dict[str, Mapping[str, str]] = {}
        self.failures: list[Failure] = []
        self._forecast = Forecast()
        self._done = self._all = 0
        self._exit_status = ""
        self._stopped = threading.Event()

    def start(self, to_train: Iterable[Mapping[str, str]]) -> None:
        """Say how many runs this call trains, and begin to draw the bar on a terminal. to_train: their wildcards."""
        self._to_train = {RECORD_FILE.format_map(run): run for run in to_train}
        self._all = len(self._to_train)
        if self._to_train:
            count = f"{len(self._number)} run{'s' if len(self._number) > 1 else ''}"
            self._print(f"{self._all} of {count} to train")
        if self._terminal.isatty() and self._own_lines:
            threading.Thread(target=self._draw_until_stopped, daemon=True).start()

    def stop(self) -> None:
        """Draw no more."""
        self._stopped.set()
        self.acquire()
        self._clear()
        self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`, which calls this with the handler's lock held."""
        event = getattr(record, "event", None)
        message = str(record.msg or "")
        if event == "job_info":
            log = record.log[0] if record.log else None  # type: ignore[attr-defined]  # Snakemake's `extra`
            self._jobs[record.jobid] = Job(record.rule_name, dict(record.wildcards), log and Path(log))  # type: ignore[attr-defined]
        elif event == "job_finished":
            self._finished(self._jobs.pop(record.job_id, None))  # type: ignore[attr-defined]
        elif event in ("job_error", "group_error"):
            for failed in getattr(record, "job_error_info", [vars(record)]):
                self._failed(self._jobs.pop(failed["jobid"], None))
        elif event == "error" and "CalledProcessError" in message:
            found = re.search(r"exit status \d+|died with <Signals\.\w+", message)
            self._exit_status = found[0].replace("<Signals.", "") if found else ""
        elif event not in JOB_EVENTS and not message.startswith(JOB_MESSAGES):
            self._pass_on(record)
            return
        if not self._own_lines:
            self._pass_on(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        if self._inner.filter(record):
            self._clear()
            self._inner.emit(record)

    def not_trained(self) -> set[str]:
        """Ids of the runs that this call was to train and did not."""
        return {RUN_FOLDER.format_map(run) for run in self._to_train.values()}

    # --- lines --------------------------------------------------------------------------------------------------

    def _finished(self, job: Job | None) -> None:
        if job is None or job.rule not in ("train", "certify"):
            return
        if job.rule == "train":
            self._done += 1
            self._to_train.pop(RECORD_FILE.format_map(job.wildcards), None)
        with suppress(OSError, ValueError, LookupError, TypeError):  # what is wrong with the file, its readers say
            if job.rule == "certify":
                self._print_certificate(job)
            else:
                self._print_run(job)

    def _print_run(self, job: Job) -> None:
        record = json.loads(Path(RECORD_FILE.format_map(job.wildcards)).read_text(encoding="utf-8"))
        self._forecast.add(record)
        colour = GREEN if record["status"] == "ok" else RED
        colour = YELLOW if record["disturbed"] and record["status"] == "ok" else colour
        title = job.title.removeprefix("training ")
        number = self._number.get(record["run"]["id"])
        run = f"run {number} of {len(self._number)}" if number else "run"
        self._print(f"{run}: {title}: {self._in(colour, run_sentence(record))} ({self._progress()})")

    def _print_certificate(self, job: Job) -> None:
        file = Path(CERTIFICATES, CERTIFICATE_FILE.format_map(job.wildcards))
        pairs = json.loads(file.read_text(encoding="utf-8"))["pairs"]
        group = "{experiment}: {recipe} on {dataset}".format_map(job.wildcards)
        lines = "".join(f"\n  {pair['first']} and {pair['second']}: {pair['sentence']}" for pair in pairs)
        self._print(f"parity check of {group}:{lines}")

    def _failed(self, job: Job | None) -> None:
        if job is None:
            return
        sentence = last_error(job.log) or self._without_error(job.log)
        self.failures.append(Failure(job.wildcards, job.title, sentence))
        log = f"; log: {job.log}" if job.log else ""
        self._print(f"{self._in(RED, 'failed')}: {job.title}: {sentence}{log}")

    def _without_error(self, log: Path | None) -> str:
        """What is known of a job whose log ends with no exception, as that of a killed one."""
        lines = tail(log).split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        said = f"; its log ends with: {last[:200]}" if last else ""
        return f"it ended with no exception ({self._exit_status or 'killed?'}){said}"

    def _print(self, text: str) -> None:
        self._clear()
        self._terminal.write(f"{text}\n")
        self._terminal.flush()

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colour else text

    # --- the bar ------------------------------------------------------------------------------------------------

    def _progress(self) -> str:
        """How many runs of this call are done, and how long the others will take."""
        running = [(job.wildcards, time.monotonic() - job.start) for job in self._jobs.values() if job.rule == "train"]
        seconds = self._forecast.seconds_left(self._to_train.values(), running)
        left = f", about {in_words(seconds)} left" if seconds and seconds >= 1 else ""
        return f"{self._done} of {self._all} done{left}"

    def _draw_until_stopped(self) -> None:
        while not self._stopped.wait(REFRESH_SECONDS):
            self.acquire()  # jobs come and go in the thread of `emit`
            try:
                if not self._stopped.is_set():
                    self._draw()
            finally:
                self.release()

    def _draw(self) -> None:
        jobs = list(self._jobs.values())
        if any(job.rule in WITH_OWN_BAR for job in jobs):
            return
        filled = BAR_CHARACTERS * self._done // max(self._all, 1)
        bar = f"[{'#' * filled}{'.' * (BAR_CHARACTERS - filled)}] {self._progress()}"
        text = "; ".join([bar, *(f"{job.title}{job.state()}" for job in jobs)])
        self._terminal.write(CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        self._terminal.flush()

    def _clear(self) -> None:
        if self._terminal.isatty():
            self._terminal.write(CLEAR_LINE)


class Forecast:
    """How long the runs that are left will take, from the records of those that are done."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._busy_seconds = 0.0
        self._done: dict[tuple[str, ...], list[tuple[int, float, float]]] = {}

    def add(self, record: Mapping) -> None:
        """Note a run that this call trained."""
        run, trained_seconds = record["run"], record["result"]["training_seconds"]
        busy_seconds = record["wall_seconds"] - record["phases_seconds"]["device_wait"]
        self._start = self._start or time.monotonic() - record["wall_seconds"]
        self._busy_seconds += busy_seconds
        measured = (run["epochs"], busy_seconds, (trained_seconds or 0.0) / run["epochs"])
        for key in _keys(run):
            self._done.setdefault(key, []).append(measured)

    def seconds_left(
        self, runs: Iterable[Mapping[str, str]], running: Iterable[tuple[Mapping[str, str], float]]
    ) -> float | None:
        """None before the first run is done. runs: those left, with the running ones. running: with their age, s."""
        if self._start is None:
            return None
        left = sum(self._run_seconds(run) for run in runs)
        left -= sum(min(age, self._run_seconds(run)) for run, age in running)
        at_once = self._busy_seconds / (time.monotonic() - self._start)
        return left / max(at_once, 0.1)

    def _run_seconds(self, run: Mapping[str, str]) -> float:
        """Of runs as like this one as there are: their time, with the difference in epochs at their pace."""
        alike = next(self._done[key] for key in _keys(run) if key in self._done)
        return fmean(busy + (int(run["epochs"]) - epochs) * pace for epochs, busy, pace in alike)


def _keys(run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What runs can have in common, the most first."""
    recipe, dataset, trainer = run["recipe"], run["dataset"], (run["framework"], run["device"])
    return [(recipe, dataset, *trainer), (recipe, dataset), ()]


def tail(log: Path | None) -> str:
    """The end of a log; empty where there is none."""
    if log is None:
        return ""
    with suppress(OSError), open(log, "rb") as stream:
        stream.seek(max(stream.seek(0, 2) - LOG_TAIL_BYTES, 0))
        return stream.read().decode(errors="replace")
    return ""


def last_error(log: Path | None) -> str:
    """The sentence of the exception that ends a log; empty where none does. Our own errors go without their class."""
    found = re.findall(r"^([\w.]*(?:Error|Exception)): (.+(?:\n(?!\s|Traceback).+)*)", tail(log), re.MULTILINE)
    if not found:
        return ""
    name, sentence = found[-1]
    name, sentence = name.rpartition(".")[2], " ".join(sentence.split("\n"))
    return sentence if hasattr(errors, name) else f"{name}: {sentence}"


def show_workflow(order: Iterable[str], workflow: Any) -> WorkflowDisplay:
    """Put a display in the place of Snakemake's handler for the terminal. Its bar begins with `WorkflowDisplay.start`.

    order: ids of all runs, as they are trained. workflow: Snakemake's `Workflow`. A dry run, and
    `--workflow-profile none`, keep Snakemake's own lines on jobs.
    """
    from snakemake.logging import logger

    settings = workflow.output_settings
    inner = next(handler for handler in logger.handlers if handler.name == "DefaultStreamHandler")
    display = WorkflowDisplay(
        order,
        inner,
        Terminal(inner.stream),
        own_lines="rules" in map(str, settings.quiet or ()) and not settings.dryrun,
        colour=not settings.nocolor and "NO_COLOR" not in os.environ,
    )
    logger.removeHandler(inner)
    logger.addHandler(display)
    return display
