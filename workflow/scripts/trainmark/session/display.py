"""Show the progress of a workflow: a line for each run and, on a terminal, a progress bar.

Snakemake passes its messages to a `logging.Handler`. `WorkflowDisplay` replaces the handler for the terminal: it prints
our own lines instead of messages about jobs, and passes on all other messages.
"""

import json
import logging
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark import errors
from trainmark.console import CLEAR_LINE, Terminal, in_words, print_line
from trainmark.machine.disturbance import FOREIGN_LOAD, MOST_PROGRAMS, mostly
from trainmark.plan.products import CERTIFICATE, RECORD, RESULTS, TRAINING_RULES
from trainmark.plan.run import RUN_FOLDER, trainer_in
from trainmark.records.sentences import pair_lines, run_sentence
from trainmark.session import internals
from trainmark.session.environments import where_to_add
from trainmark.session.forecast import Forecast
from trainmark.session.internals import Call

REFRESH_SECONDS = 1.0
"""Time between two updates of the bar. It is long because drawing takes CPU time from the runs being timed."""

BAR_CHARACTERS = 20

DISTURBED_RUNS = 3
"""After so many runs that other work disturbed, a line says which programs that was, and how to go on without them."""

LOG_TAIL_BYTES = 20_000
"""Size of the part at the end of a log that is read."""

STATES = r"^(waiting for its device|training|epoch \d+(?:: step .*left$)?)"
"""Lines of the log of a training job that say how far it is; the part in parentheses is shown."""

UNWRITTEN = "exit status 120"
"""How Python ends that could not write what it had printed."""

CHECKING_CLAIMS = "checking the claims"

TITLES = {
    "download_dataset": "fetching {dataset}",
    "prepare_dataset": "preparing {dataset}",
    "pack_images": "packing the images of {dataset}",
    "compute_mean_image": "computing the mean image of {dataset}",
    "check_gpu": "checking that {framework} computes on the GPU",
    "trace_training": "checking {trainer} ({recipe} on {dataset})",
    "certify": "comparing all trainers ({recipe} on {dataset})",
    "time_tuning": "timing the steps of {trainer} ({recipe} on {dataset})",
    "train": "training {trainer}, {epochs} epochs, repeat {repeat} ({recipe} on {dataset})",
    "fetch_command": "fetching the files of {recipe}",
    "run_command": "running {recipe} on {device}, {epochs} epochs, repeat {repeat}",
    "evaluate_weights": "cross-evaluating with {trainer} ({recipe} on {dataset})",
    "collect_records": "making the tables",
    "plot_figures": "drawing the figures ({recipe} on {dataset})",
    "report": "writing the report",
    "check_claims": CHECKING_CLAIMS,
    "paper": "writing numbers, tables and figures for a paper",
}
"""What the jobs of each rule do. `trainer` is the name of a trainer; the other words are its parts and wildcards."""

WITH_OWN_BAR = {"download_dataset", "fetch_command", "prepare_dataset", "pack_images", "compute_mean_image"}
"""Rules whose jobs draw their own progress bar. Ours is hidden while one of them runs."""

JOB_EVENTS = {"run_info", "job_started", "progress", "shellcmd", "group_info", "resources_info"}
"""Events of Snakemake that our own lines replace, besides those that `WorkflowDisplay.emit` handles."""

RED, GREEN, YELLOW, PLAIN = (f"\x1b[{code}m" for code in (31, 32, 33, 0))


@dataclass
class Job:
    """A running job. log: None if its rule has none. names_experiment: whether its title does."""

    rule: str
    wildcards: Mapping[str, str]
    log: Path | None
    names_experiment: bool = False
    start: float = field(default_factory=time.monotonic)

    @property
    def title(self) -> str:
        """A description of what the job does."""
        words: dict[str, Any] = dict(self.wildcards)
        if trainer := trainer_in(self.wildcards):
            words |= trainer._asdict() | {"trainer": trainer.name}
        if self.names_experiment and "experiment" in words:
            words["recipe"] = "{experiment}: {recipe}".format_map(words)
        title = TITLES.get(self.rule, self.rule).format_map(words)
        return title.replace(" 1 epochs", " 1 epoch")

    def state(self) -> str:
        """Return the last state in the log of a training job: waiting, or how far it is. Empty for other jobs."""
        if self.rule not in TRAINING_RULES:
            return ""
        states = re.findall(STATES, tail(self.log), re.MULTILINE)
        return f", {states[-1]}" if states and states[-1] != "training" else ""


@dataclass(frozen=True)
class Failure:
    """A failed job. title: what it did. sentence: why it failed."""

    wildcards: Mapping[str, str]
    title: str
    sentence: str


class WorkflowDisplay(logging.Handler):
    """A handler that shows Snakemake's messages on the terminal.

    order: ids of all runs, in the order of training.
    inner: Snakemake's own handler, which prints all other messages.
    own_lines: whether our lines replace Snakemake's messages about jobs. If not, `inner` prints those too.
    explain: turns the last error in the log of a failed job into what is printed. Both may be empty.

    Its attribute `is_stopping` says whether Snakemake was stopped, by Ctrl-C or a signal. A job that this ends has not
    failed. `trained` says of each run that was trained whether it was disturbed. `advice` is what can be done about
    other work. `before_jobs` is called when Snakemake knows the jobs, once; the `onstart` of a dry run is not.
    """

    def __init__(
        self,
        order: Iterable[str],
        inner: logging.Handler,
        terminal: Terminal,
        *,
        own_lines: bool,
        colour: bool,
        explain: Callable[[Job, str], str] = lambda job, sentence: sentence,
    ) -> None:
        super().__init__()
        self._number = {run_id: number for number, run_id in enumerate(order, start=1)}
        self._names_experiments = len({run_id.partition("/")[0] for run_id in self._number}) > 1
        self._inner, self._terminal = inner, terminal
        self._own_lines, self._colour = own_lines, colour and terminal.isatty()
        self._explain = explain
        self._jobs: dict[int, Job] = {}
        self._to_train: dict[str, Mapping[str, str]] = {}
        self.failures: list[Failure] = []
        self.trained: dict[str, bool] = {}
        self.advice = ""
        self.is_stopping = False
        self.before_jobs: Callable[[], None] | None = None
        self._forecast = Forecast()
        self._done = self._all = self._disturbed = 0
        self._programs: Counter[str] = Counter()
        self._exit_status = ""
        self._stopped = threading.Event()

    def start(self, to_train: Iterable[Mapping[str, str]]) -> None:
        """On a terminal, start the bar. to_train: wildcards of the runs that this call trains."""
        self._to_train = {_path(RECORD, run): run for run in to_train}
        self._all = len(self._to_train)
        if self._terminal.isatty() and self._own_lines:
            threading.Thread(target=self._draw_until_stopped, daemon=True).start()

    def stop(self) -> None:
        """Stop and clear the bar."""
        self._stopped.set()
        self.acquire()
        self._clear()
        self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`. It is called while the handler's lock is held."""
        try:
            if self.before_jobs is None:
                self._show(record)
                return
            if getattr(record, "event", None) == "run_info":
                self.before_jobs()
                self.before_jobs = lambda: None
            self._pass_on(record)
        except Exception:  # as logging's own handlers: a line that can't be printed ends no workflow
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        message = str(record.msg or "")
        if event == "job_info":
            log = record.log[0] if record.log else None  # type: ignore[attr-defined]  # Snakemake's `extra`
            wildcards: dict = dict(record.wildcards)  # type: ignore[attr-defined]
            job = Job(record.rule_name, wildcards, log and Path(log), self._names_experiments)  # type: ignore[attr-defined]
            self._jobs[record.jobid] = job  # type: ignore[attr-defined]
        elif event == "job_finished":
            self._finished(self._jobs.pop(record.job_id, None))  # type: ignore[attr-defined]
        elif event in ("job_error", "group_error"):
            for failed in getattr(record, "job_error_info", [vars(record)]):
                self._failed(self._jobs.pop(failed["jobid"], None))
        elif event == "error" and "CalledProcessError" in message:
            match = re.search(r"exit status \d+|died with <Signals\.\w+", message)
            self._exit_status = match[0].replace("<Signals.", "") if match else ""
        elif message.startswith(internals.STOP_MESSAGES) and not self.is_stopping:
            self.is_stopping = True
            self._pass_on(record)
            return
        elif self.is_stopping and (message.startswith(internals.STOP_MESSAGES) or internals.LAST_ERROR in message):
            return
        elif event not in JOB_EVENTS and not message.startswith(internals.JOB_MESSAGES):
            self._pass_on(record)
            return
        if not self._own_lines:
            self._pass_on(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        if self._inner.filter(record):
            self._clear()
            self._inner.emit(record)

    def not_trained(self) -> set[str]:
        """Return the ids of the runs that this call should have trained but did not."""
        return {RUN_FOLDER.format_map(run) for run in self._to_train.values()}

    # --- lines --------------------------------------------------------------------------------------------------

    def _finished(self, job: Job | None) -> None:
        if job is None:
            return
        # Snakemake may start a failed job again (--retries).
        self.failures = [one for one in self.failures if (one.title, one.wildcards) != (job.title, job.wildcards)]
        if job.rule not in (*TRAINING_RULES, "certify"):
            return
        if job.rule in TRAINING_RULES:
            record = _path(RECORD, job.wildcards)
            if self._to_train.pop(record, None) is None:
                return  # its files were only touched (--touch)
            self._done += 1
            Path(record).with_suffix(".kept.json").unlink(missing_ok=True)
        with suppress(OSError, ValueError, LookupError, TypeError):  # readers of the file report what is wrong
            if job.rule == "certify":
                self._print_certificate(job)
            else:
                self._print_run(job)

    def _print_run(self, job: Job) -> None:
        record = json.loads(Path(_path(RECORD, job.wildcards)).read_text(encoding="utf-8"))
        self._forecast.add(record)
        self.trained[record["run"]["id"]] = bool(record["disturbed"])
        colour = GREEN if record["status"] == "ok" else RED
        colour = YELLOW if record["disturbed"] and record["status"] == "ok" else colour
        title = re.sub("^(training|running) ", "", job.title)
        number = self._number.get(record["run"]["id"])
        run = f"run {number} of {len(self._number)}" if number else "run"
        print_line(f"{run}: {title}: {self._in(colour, run_sentence(record))} ({self._progress()})", self._terminal)
        self._note_other_work(record["disturbed"])

    def _note_other_work(self, disturbed: Mapping | None) -> None:
        """Count the runs that other work disturbed, and say after DISTURBED_RUNS of them what can be done."""
        if FOREIGN_LOAD not in [cause["cause"] for cause in (disturbed or {"causes": []})["causes"]]:
            return
        self._disturbed += 1
        for program in (disturbed or {}).get("programs", ()):
            self._programs[program["name"]] += program["cpu_seconds"]
        if self._disturbed == DISTURBED_RUNS:
            named = mostly([name for name, _ in self._programs.most_common(MOST_PROGRAMS)])
            line = f"{DISTURBED_RUNS} runs of this call were disturbed by other work{named}{self.advice}"
            print_line(self._in(YELLOW, line), self._terminal)

    def _print_certificate(self, job: Job) -> None:
        file = Path(_path(CERTIFICATE, job.wildcards))
        pairs = json.loads(file.read_text(encoding="utf-8"))["pairs"]
        group = "{experiment}: {recipe} on {dataset}".format_map(job.wildcards)
        print_line("\n  ".join([f"parity check of {group}:", *pair_lines(pairs)]), self._terminal)

    def _failed(self, job: Job | None) -> None:
        if job is None:
            return
        error = last_error(tail(job.log))
        if self.is_stopping and not error:
            return
        sentence = self._explain(job, error) or self._without_error(job.log)
        self.failures.append(Failure(job.wildcards, job.title, sentence))
        log = f"; log: {job.log}" if job.log else ""
        print_line(f"{self._in(RED, 'failed')}: {job.title}: {sentence}{log}", self._terminal)

    def _without_error(self, log: Path | None) -> str:
        """Describe the failure of a job whose log ends without an exception, such as a killed job."""
        lines = tail(log).split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip(" -")), "")
        log_end = f"; its log ends with: {last[:200]}" if last else ""
        full = "; its log could not be written: is the disk full?" if self._exit_status == UNWRITTEN else ""
        return f"it ended with no exception ({self._exit_status or 'killed?'}){full}{log_end}"

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colour else text

    # --- the bar ------------------------------------------------------------------------------------------------

    def _progress(self) -> str:
        """Return how many runs of this call are done, and the estimated time for the others."""
        runs = [job for job in self._jobs.values() if job.rule in TRAINING_RULES]
        running = [(job.wildcards, time.monotonic() - job.start) for job in runs]
        seconds = self._forecast.seconds_left(self._to_train.values(), running)
        left = f", about {in_words(seconds)} left" if seconds and seconds >= 1 else ""
        return f"{self._done} of {self._all} done{left}"

    def _draw_until_stopped(self) -> None:
        while not self._stopped.wait(REFRESH_SECONDS):
            self.acquire()  # `emit` changes the jobs in another thread
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


def _path(pattern: str, wildcards: Mapping[str, str]) -> str:
    return f"{RESULTS}/{pattern.format_map(wildcards)}"


def tail(log: Path | None) -> str:
    """Return the end of a log; empty if there is no log."""
    if log is None:
        return ""
    with suppress(OSError), open(log, "rb") as stream:
        stream.seek(max(stream.seek(0, 2) - LOG_TAIL_BYTES, 0))
        return stream.read().decode(errors="replace")
    return ""


def last_error(text: str) -> str:
    """Return the last exception in a log, or an empty text. The class is left out if the error is one of ours."""
    exceptions = re.findall(r"^([\w.]*(?:Error|Exception)): (.+(?:\n(?!\s|Traceback|-----).+)*)", text, re.MULTILINE)
    if not exceptions:
        return ""
    name, sentence = exceptions[-1]
    name, sentence = name.rpartition(".")[2], " ".join(sentence.split("\n"))
    return sentence if hasattr(errors, name) else f"{name}: {sentence}"


def show_workflow(order: Iterable[str], workflow: Any, call: Call) -> WorkflowDisplay | None:
    """Replace Snakemake's handler for the terminal by a display; None if a logger took its place.

    A dry run and `--workflow-profile none` keep Snakemake's own messages about jobs.
    """

    def explain(job: Job, sentence: str) -> str:
        environment, output_of_help = internals.software_of(workflow, job.rule, job.wildcards)
        if not sentence and not tail(job.log):
            sentence = last_error(output_of_help())
        return where_to_add(sentence, environment, call.deployment)

    def display(inner: logging.Handler) -> WorkflowDisplay:
        return WorkflowDisplay(
            order,
            inner,
            Terminal(inner.stream),  # type: ignore[attr-defined]  # a StreamHandler
            own_lines=call.hides_jobs and not call.is_dry_run,
            colour=call.has_colour and "NO_COLOR" not in os.environ,
            explain=explain,
        )

    return internals.replace_terminal_handler(display)
