"""The state of a job of the cluster, and why it ended.

A job leaves its exit status in a file, so neither accounting nor a scheduler that answers is needed to see its success.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmark.cluster.jobs import FOLDER
from trainmark.cluster.listing import Listing, ask, say
from trainmark.cluster.schedulers import ENDED, OUT_OF_MEMORY_OUTPUT, UNKNOWN_REASON, Listed, Scheduler
from trainmark.cluster.site import site_file
from trainmark.cluster.submission import explain
from trainmark.files.whole import write_text

GONE_SECONDS = 30
"""A job that left the listing without an exit status is lost after this time: shared file systems show files late."""

REASON_SECONDS = 300
"""A reason for which a job does not run, and of which nothing is known, is repeated after this time."""

TAIL_LINES = 3


def status(external_id: str, listing: Listing) -> str:
    """Return "success", "running" or "failed". A failure is explained in the log of the job's rule.

    While the scheduler does not answer, a job counts as running.

    external_id: what `submission.submit` returned.
    """
    scheduler = listing.scheduler
    job_id, _, name = external_id.partition(":")
    folder = FOLDER / name
    exit_status = _read(folder / "exit")
    if exit_status == "0":
        return "success"
    if not (folder / "job.json").exists():
        say(f"somebody deleted {folder}, without which job {job_id} can't be followed; the next call finds it again")
        return "failed"
    job = json.loads((folder / "job.json").read_text())
    listed_at, listed = listing.recent()
    ended_at = (folder / "exit").stat().st_mtime if exit_status else job["time"]
    if listed is None or listed_at < ended_at <= time.time():  # not after the clock was set back
        return "running"
    entry = listed.get(job_id)
    if entry and entry.name != name:  # a controller that lost its state gives ids again
        entry = None
    if entry and entry.alive:
        (folder / "gone").unlink(missing_ok=True)
        _tell_reason(job_id, job["rule"], entry.reason, listing)
        return "running"
    if not entry and not exit_status and not _is_gone(folder):
        return "running"
    state = _end_of(external_id, entry, exit_status, job, scheduler)
    if state == "COMPLETED":
        return "success"
    if state not in ENDED:
        (folder / "gone").unlink(missing_ok=True)  # not to ask the accounting each time
        _tell_reason(job_id, job["rule"], f"{state}, but {scheduler.listing[0]} does not list it", listing)
        return "running"
    _explain(job, job_id, state, exit_status, scheduler)
    return "failed"


def _tell_reason(job_id: str, rule: str, reason: str, listing: Listing) -> None:
    """Say why a job does not run, once for each rule: at once if that is known, else after REASON_SECONDS."""
    if not reason:  # it was just submitted
        return
    known = (said for pattern, said in listing.scheduler.reasons.items() if re.search(pattern, reason))
    said = next(known, UNKNOWN_REASON)
    if not said:  # what a user has let go is told again if it is stopped again
        listing.told = {one for one in listing.told if not re.search(rf"\b{re.escape(job_id)}\b", one)}
    what = re.split("[,(]", reason)[0].strip()  # what follows, as the nodes that are not there, may change
    seconds = time.monotonic() - listing.reasons.setdefault((job_id, what), time.monotonic())
    values = {"why": f"{listing.scheduler.title}: {reason}", "site": site_file(), "minutes": REASON_SECONDS // 60}
    sentence = f"({rule}) {said.format(job_id=job_id, **values)}"
    key = sentence.replace(reason, what)
    if said and key not in listing.told and (said != UNKNOWN_REASON or seconds >= REASON_SECONDS):
        listing.told.add(key)
        say(f"job {job_id} {sentence}")


def _end_of(external_id: str, entry: Listed | None, exit_status: str, job: Mapping, scheduler: Scheduler) -> str:
    """Return the state in which a job ended, COMPLETED or one of ENDED; another one if it has not ended."""
    state = entry.state if entry else _accounted(external_id, scheduler)
    if state == "COMPLETED" or (state and state not in ENDED and not exit_status):
        return state
    # Its processes are killed one by one, so that its shell may still leave an exit status.
    if OUT_OF_MEMORY_OUTPUT.search(_read(Path(job["stdout"]))):
        return "OUT_OF_MEMORY"
    if exit_status and state not in ENDED:
        return "FAILED"
    return state or "LOST"


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""


def _is_gone(folder: Path) -> bool:
    """Whether a job without an exit status has been missing from the listing for GONE_SECONDS."""
    since = folder / "gone"
    if not since.exists():  # the time is written, because the clock of a file server may differ
        write_text(since, str(time.time()))
    return abs(time.time() - float(since.read_text())) > GONE_SECONDS  # the clock may have been set back


def _accounted(external_id: str, scheduler: Scheduler) -> str:
    """Return the state of a job from the accounting; empty if there is none."""
    job_id, _, name = external_id.partition(":")
    try:
        command = [word.format(job_id=job_id, name=name) for word in scheduler.account]
        return scheduler.read_account(ask(command, scheduler))
    except Exception:  # no accounting, or one in another format
        return ""


def _explain(job: Mapping[str, Any], job_id: str, state: str, exit_status: str, scheduler: Scheduler) -> None:
    """Write why a job failed at the end of its rule's log, where the workflow reads it for the terminal."""
    logs = [Path(log) for log in job["logs"]]
    if state == "FAILED":  # a rule that has begun says in its log why it failed
        logs = [log for log in logs if not log.exists() or log.stat().st_mtime < job["time"]]
    values = {**job, "job_id": job_id, "exit_status": exit_status, "title": scheduler.title, "site": site_file()}
    output = _read(Path(job["stdout"])).splitlines()[-TAIL_LINES:] if state in ("FAILED", "REFUSED", "LOST") else []
    end = f", which ends with: {' / '.join(output)}" if output else ""
    said = {**ENDED, **scheduler.ended}[state].format_map(values)
    explain(logs, f"{state}: {said} (job {job_id}; output: {job['stdout']}{end})")
