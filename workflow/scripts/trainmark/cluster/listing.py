"""Ask a scheduler, and list the user's jobs. One listing serves many questions."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterable

from trainmark.cluster.schedulers import Listed, Scheduler
from trainmark.console import Terminal
from trainmark.errors import ClusterError, HangError, SilentError
from trainmark.machine.programs import run_program

LISTING_SECONDS = 5
"""A listing is used for this time, so that many jobs cost one query."""

REMOVED = "CUDA_VISIBLE_DEVICES$|SQUEUE_|SACCT_|SCANCEL_"
"""Variables that no command of a scheduler gets: a job, which inherits them, has its GPUs from the scheduler alone, and
the others restrict what is listed and cancelled."""


def ask(command: Iterable[str], scheduler: Scheduler) -> str:
    """Return the output of a command of the scheduler.

    Raises SilentError if it fails or hangs, and ClusterError if there is no such command.
    """
    command = list(command)
    environment = {name: value for name, value in os.environ.items() if not re.match(REMOVED, name)}
    try:
        done = run_program(command, env=environment)
    except FileNotFoundError as error:
        raise ClusterError(
            f"there is no command {command[0]} on the PATH: call snakemake on a host from which jobs are submitted to "
            f"{scheduler.title}"
        ) from error
    except HangError as error:
        raise SilentError(str(error)) from error
    said = " ".join((done.stderr or done.stdout).split())
    is_error = command == [*scheduler.listing] and "error:" in done.stderr  # squeue may end with status 0
    if done.returncode or (is_error and not scheduler.read_listing(done.stdout)):
        raise SilentError(f"{command[0]}: {said or f'exit status {done.returncode}'}")
    return done.stdout


def list_jobs(scheduler: Scheduler) -> dict[str, Listed]:
    """Return the user's jobs by their id. Raises SilentError if the scheduler does not answer."""
    try:
        return scheduler.read_listing(ask(scheduler.listing, scheduler))
    except (KeyError, ValueError) as error:
        raise SilentError(f"{scheduler.listing[0]} printed something else than jobs: {str(error)[:200]!r}") from error


class Listing:
    """The user's jobs at a scheduler. One answer serves many questions, of both threads of Snakemake's executor.

    reasons: since when a job has not run for a reason, by its id and the reason (clock: monotonic).
    told: what was said of them.
    refusal: why no job is submitted any more; empty if nothing is known against it.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.reasons: dict[tuple[str, str], float] = {}
        self.told: set[str] = set()
        self.refusal = ""
        self._lock = threading.Lock()
        self._time, self._silent = 0.0, False
        self._jobs: dict[str, Listed] | None = None

    def recent(self, seconds: float = LISTING_SECONDS) -> tuple[float, dict[str, Listed] | None]:
        """Return when a listing was taken, at most so many seconds ago, and its jobs; None if the scheduler is silent.

        That it is silent, and that it answers again, is printed.
        """
        with self._lock:
            now = time.time()
            if abs(now - self._time) > seconds:  # the clock may have been set back
                self._renew(now)
            return self._time, None if self._jobs is None else dict(self._jobs)

    def _renew(self, now: float) -> None:
        title, was_silent = self.scheduler.title, self._silent
        try:
            self._time, self._jobs, self._silent = now, list_jobs(self.scheduler), False
        except SilentError as error:
            self._time, self._jobs, self._silent = time.time(), None, True
            if not was_silent:
                say(
                    f"{title} does not answer ({error}); its jobs go on, and this workflow waits. After Ctrl-C, the "
                    "next call finds the jobs again"
                )
        else:
            if was_silent:
                say(f"{title} answers again")

    def add(self, job_id: str, name: str) -> None:
        """Add a job that was just submitted."""
        with self._lock:
            if self._jobs is not None:
                self._jobs[job_id] = Listed(name, "PENDING", alive=True)


def say(message: str) -> None:
    """Print a line on the terminal of the workflow."""
    print(message, file=Terminal(sys.stderr), flush=True)
