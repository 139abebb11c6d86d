"""Submit and cancel jobs.

A call of snakemake finds the jobs of an earlier call that was killed, and waits for them instead of submitting them
again.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from trainmark.cluster.jobs import FOLDER, Job, node_script, submit_command, values_of
from trainmark.cluster.listing import LISTING_SECONDS, Listing, ask, list_jobs, say
from trainmark.cluster.schedulers import ON_CLUSTER, Listed, Scheduler, read_submission
from trainmark.cluster.site import Site
from trainmark.errors import ClusterError, SilentError
from trainmark.files.whole import write_text

CANCEL = Path(__file__).parents[2] / "cancel_jobs.py"

NO_ANSWER_SECONDS = 600
"""After this time without an answer of the scheduler a submission fails."""

RETRY_SECONDS = 10


def submit(script: Path, listing: Listing, site: Site) -> str | None:
    """Submit a job, or find the job of an earlier call that makes the same outputs. Returns "<id>:<name>".

    script: what Snakemake wrote for the job.

    Returns None if the job cannot be submitted; then the log of the job's rule says why.
    """
    job, job_script = Job.read(script)
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        return _submit(job, job_script, listing, site)
    except (ClusterError, OSError) as error:  # a full disk ends this job alone, not the workflow
        explain(map(Path, job.logs), str(error))
        return None


def explain(logs: Iterable[Path], sentence: str) -> None:
    """Write why a job failed at the end of its rule's log, where the workflow reads it for the terminal."""
    for log in logs:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as stream:
            stream.write(f"\nClusterError: {sentence}\n")


def _submit(job: Job, job_script: str, listing: Listing, site: Site) -> str:
    scheduler = listing.scheduler
    values = values_of(job, scheduler, site)
    name = values["name"]
    folder = FOLDER / name
    described = {key: values.get(key) for key in ("stdout", "limit", "mem_mb")} | {
        "rule": job.rule, "outputs": job.outputs, "logs": job.logs, "time": time.time()
    }  # fmt: skip
    listed = _answered(listing)
    if job_id := _alive(name, listed):
        say(f"job {job_id} of an earlier call is still {listed[job_id].state}; waiting for it: {name}")
    else:
        _cancel_outdated(name, listed, scheduler)
        for left in ("exit", "gone"):
            (folder / left).unlink(missing_ok=True)
        for key in ("stdout", "stderr"):
            Path(values.get(key) or values["stdout"]).parent.mkdir(parents=True, exist_ok=True)
        command = submit_command(values, scheduler)
        write_text(folder / "job.sh", node_script(job_script, name, values, site, command))
        job_id = _send([*command, str(folder / "job.sh")], name, listing)
        listing.add(job_id, name)
    write_text(folder / "job.json", json.dumps(described))
    return f"{job_id}:{name}"


def _send(command: list[str], name: str, listing: Listing) -> str:
    """Submit a script and return the job's id.

    Raises ClusterError if the scheduler refuses it, or if neither what it printed nor its listing has the id.
    """
    scheduler = listing.scheduler
    if listing.refusal:
        raise ClusterError(listing.refusal)
    for _ in range(2):
        answer = None
        try:
            answer = ask(command, scheduler)
        except SilentError as error:
            refusal = f"{scheduler.title} refused a job: {error}"
        # The scheduler may be away, and it may have taken the job all the same.
        if job_id := read_submission(answer or "") or _alive(name, _answered(listing, seconds=0)):
            if on_cluster := ON_CLUSTER.search(answer or ""):
                _check_cluster(on_cluster[1], job_id, name, listing)
            return job_id
        if answer is not None:  # it was taken perhaps: not again
            refusal = f"{command[0]} printed no id of a job ({answer!r}), and {scheduler.title} lists none of this name"
            break
    raise ClusterError(f"{refusal}; the command: {shlex.join(command)}")


def _check_cluster(cluster: str, job_id: str, name: str, listing: Listing) -> None:
    """Raise ClusterError, and cancel the job, if the listing is not that of its cluster."""
    scheduler = listing.scheduler
    if getattr(_answered(listing, seconds=0).get(job_id), "name", None) == name:
        return
    command = [*scheduler.cancel, f"--clusters={cluster}", job_id]
    with suppress(SilentError):
        ask(command, scheduler)
    listing.refusal = (
        f"{scheduler.title} put job {job_id} onto the cluster {cluster}, which {scheduler.listing[0]} here does not "
        f"list; {scheduler.title} was told to cancel it ({shlex.join(command)}); call snakemake on a submit host of "
        f"{cluster}, or let jobs stay on the cluster of this host: no --clusters in slurm_extra, no SBATCH_CLUSTERS"
    )
    raise ClusterError(listing.refusal)


def _alive(name: str, listed: Mapping[str, Listed]) -> str | None:
    return next((job_id for job_id, one in listed.items() if one.name == name and one.alive), None)


def _answered(listing: Listing, seconds: float = LISTING_SECONDS) -> dict[str, Listed]:
    """Return the user's jobs as they were at most so many seconds ago, as soon as the scheduler answers.

    Raises ClusterError if it does not answer in NO_ANSWER_SECONDS.
    """
    start = time.monotonic()
    while (listed := listing.recent(seconds)[1]) is None:
        if time.monotonic() - start > NO_ANSWER_SECONDS:
            raise ClusterError(
                f"{listing.scheduler.title} has not answered for {NO_ANSWER_SECONDS // 60} minutes; call snakemake "
                "again when it does: jobs that run are found again"
            )
        time.sleep(RETRY_SECONDS)
    return listed


def _cancel_outdated(name: str, listed: Mapping[str, Listed], scheduler: Scheduler) -> None:
    """Cancel jobs of an earlier call that make the same outputs from another config or code."""
    same_outputs = name.rpartition("-")[0] + "-"
    for job_id, one in listed.items():
        if one.alive and one.name.startswith(same_outputs):
            say(f"job {job_id} of an earlier call makes the same files from another config or code: cancelled")
            with suppress(SilentError):
                ask([*scheduler.cancel, job_id], scheduler)


def cancel(scheduler: Scheduler) -> None:
    """Cancel all jobs of this folder's workflow that wait or run."""
    names = {script.parent.name for script in FOLDER.glob("*/job.sh")}
    try:
        alive = [job_id for job_id, one in list_jobs(scheduler).items() if one.alive and one.name in names]
        if alive:
            ask([*scheduler.cancel, *alive], scheduler)
    except SilentError as error:
        again = f"cd {shlex.quote(os.getcwd())} && {shlex.join([sys.executable, *sys.argv])}"
        say(f"{scheduler.title} did not cancel the jobs ({error}); when it answers: {again}")
