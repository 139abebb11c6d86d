"""What Snakemake's generic executor needs from trainmark, which replaces parts of it before the first job."""

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainmark.cluster.schedulers import SCHEDULERS, Scheduler
from trainmark.cluster.site import Site, check_sections, read_site, scheduler_of

PREVIEW_VARIABLE = "TRAINMARK_PREVIEW"
"""Environment variable that makes a dry run print the submit commands of the profile that it names."""

SCRIPT = Path(__file__).parents[2] / "cluster.py"

CANCEL_SECONDS = 10
"""Ctrl-C waits for this time until the jobs are cancelled; after it the command goes on by itself."""


PYTHON_VARIABLE = "TRAINMARK_PYTHON"


def put_python_on_path() -> None:
    """Make sure that `python` in a rule can be the one that runs the workflow, also in a shell without its PATH.

    PYTHON_VARIABLE names it for the rule whose conda environment has another one.
    """
    os.environ[PYTHON_VARIABLE] = sys.executable
    folder = os.path.dirname(sys.executable)
    if folder not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]


def cluster_of(workflow: Any) -> tuple[Scheduler, Site] | None:
    """Return the scheduler and the site of the workflow's cluster profile; None if its jobs run elsewhere.

    Raises ClusterError for a site file with mistakes.
    """
    profile = _profile_of(workflow)
    if not profile:
        return None
    scheduler = scheduler_of(profile)
    return scheduler, read_site(scheduler)


def _profile_of(workflow: Any) -> str | None:
    """Return the name of the workflow's cluster profile, by its submit command (... cluster.py submit <profile>)."""
    words = (getattr(workflow.executor_settings, "submit_cmd", None) or "").split()[-3:]
    known = len(words) == 3 and Path(words[0]).name == SCRIPT.name and words[2] in SCHEDULERS
    return words[2] if known and not workflow.local_exec else None


def prepare_executor(workflow: Any) -> None:
    """Prepare the executor of a cluster profile before the first job. Nothing happens for other executors.

    Raises ClusterError for a site file with mistakes.
    """
    if (profile := _profile_of(workflow)) is None:
        return
    from trainmark.cluster.listing import LISTING  # imports more than a dry run may need

    scheduler = scheduler_of(profile)
    check_sections(read_site(scheduler), submitted_rules(workflow))
    LISTING.unlink(missing_ok=True)
    submit, cancel = ([sys.executable, str(SCRIPT), command, profile] for command in ("submit", "cancel"))
    workflow.executor_settings.submit_cmd = shlex.join(submit)  # in any directory
    executor = workflow.scheduler._executor
    executor.run_jobs = in_order(executor.run_jobs)
    executor.check_active_jobs = checked(executor, scheduler)
    executor.cancel_jobs = lambda _: _cancel(cancel)


def submitted_rules(workflow: Any) -> list[str]:
    """Return the names of the rules whose jobs are submitted."""
    return sorted(rule.name for rule in workflow.rules if rule.name not in workflow._localrules)


def in_order(run_jobs: Callable[[Sequence[Any]], None]) -> Callable[[Sequence[Any]], None]:
    """Make an executor submit jobs by priority. Snakemake's order within those that it starts at once is arbitrary."""
    return lambda jobs: run_jobs(sorted(jobs, key=lambda job: -job.priority))


def checked(executor: Any, scheduler: Scheduler) -> Callable[[Sequence[Any]], AsyncGenerator[Any, None]]:
    """Make an executor look at its jobs in its own process. Its status command starts a process for each job."""

    from trainmark.cluster.status import status

    async def check(jobs: Sequence[Any]) -> AsyncGenerator[Any, None]:
        for job in jobs:
            state = status(job.external_jobid, scheduler)
            if state == "success":
                executor.report_job_success(job)
            elif state == "failed":
                executor.report_job_error(job)
            else:
                yield job

    return check


def _cancel(command: Sequence[str]) -> None:
    """Cancel all jobs. The executor itself passes on those only whose state it is not just asking for."""
    process = subprocess.Popen(command, start_new_session=True)
    with suppress(subprocess.TimeoutExpired):
        process.wait(CANCEL_SECONDS)
