"""Ask a scheduler, and list the user's jobs. One listing serves many questions."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from filelock import FileLock

from trainmark.cluster.jobs import FOLDER
from trainmark.cluster.schedulers import Listed, Scheduler
from trainmark.console import Terminal
from trainmark.errors import ClusterError, SilentError
from trainmark.files.whole import write_text

LISTING = FOLDER / "listing.json"

LISTING_SECONDS = 5
"""A listing is used for this time, so that many jobs cost one query."""

REMINDER_SECONDS = 600
"""Time between two lines that say that the scheduler does not answer."""


def ask(command: Iterable[str], scheduler: Scheduler) -> str:
    """Return the output of a command of the scheduler.

    Raises SilentError if it fails or takes more than a minute, and ClusterError if there is no such command.
    """
    command = list(command)
    # A job gets this process's environment, and from the scheduler alone the GPUs it may use.
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise ClusterError(
            f"there is no command {command[0]} on the PATH: call snakemake on a host from which jobs are submitted to "
            f"{scheduler.title}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SilentError(f"{command[0]} did not answer in a minute") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise SilentError(f"{command[0]}: {said or f'exit status {done.returncode}'}")
    return done.stdout


def list_jobs(scheduler: Scheduler) -> dict[str, Listed]:
    """Return the user's jobs by their id. Raises SilentError if the scheduler does not answer."""
    text = ask(scheduler.listing, scheduler)
    try:
        return scheduler.read_listing(text)
    except (KeyError, ValueError) as error:
        raise SilentError(f"{scheduler.listing[0]} printed something else than jobs: {text[:200]}") from error


def recent_listing(scheduler: Scheduler, seconds: float = LISTING_SECONDS) -> tuple[float, dict[str, Listed] | None]:
    """Return when a listing was taken, at most so many seconds ago, and its jobs; None if the scheduler is silent.

    That it is silent, and that it answers again, is printed.
    """
    with _kept_listing() as kept:
        now = time.time()
        if abs(now - kept.get("time", 0)) > seconds:  # the clock may have been set back
            _renew(kept, now, scheduler)
    jobs = kept["jobs"]
    return kept["time"], None if jobs is None else {job_id: Listed(**job) for job_id, job in jobs.items()}


def _renew(kept: dict, now: float, scheduler: Scheduler) -> None:
    silent_since = kept.get("silent_since")
    try:
        jobs = {job_id: vars(job) for job_id, job in list_jobs(scheduler).items()}
    except SilentError as error:
        if now - kept.get("said", 0) > REMINDER_SECONDS:
            minutes = f" since {int(now - silent_since) // 60} minutes" if silent_since else ""
            say(
                f"{scheduler.title} does not answer{minutes} ({error}); its jobs go on, and this workflow waits. After "
                "Ctrl-C, the next call finds the jobs again"
            )
            kept["said"] = now
        kept |= {"time": time.time(), "jobs": None, "silent_since": silent_since or now}
    else:
        if silent_since:
            say(f"{scheduler.title} answers again")
        kept.clear()
        kept |= {"time": now, "jobs": jobs}


def add_to_listing(job_id: str, name: str) -> None:
    """Add a job that was just submitted to the kept listing."""
    with _kept_listing() as kept:
        if kept.get("jobs") is not None:
            kept["jobs"][job_id] = vars(Listed(name, "PENDING", alive=True))


@contextmanager
def _kept_listing() -> Iterator[dict]:
    """Yield the kept listing, and write what the body makes of it. Only one process at a time is in the body."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(FOLDER / "listing.lock"):
        kept = json.loads(LISTING.read_text()) if LISTING.exists() else {}
        before = json.dumps(kept)
        yield kept
        if (after := json.dumps(kept)) != before:
            write_text(LISTING, after)


def say(message: str) -> None:
    """Print a line on the terminal of the workflow."""
    print(message, file=Terminal(sys.stderr), flush=True)
