"""What trainmark uses of Snakemake beyond its documented interface: one function for each, with the reason.

Each is tested on the locked Snakemake by tests/workflow/test_internals.py, which names the one that broke.
`workflow` is Snakemake's object of that name.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from trainmark.plan.products import RESULTS

Handler = TypeVar("Handler", bound=logging.Handler)

DEPLOYMENT_METHODS = {"conda", "apptainer"}

JOB_MESSAGES = (
    "Select jobs to execute", "Using shell", "Conda environments: ignored", "Singularity containers: ignored",
    "Activating conda environment", "Activating singularity image", "Group jobs: inactive", "Touching output file",
)  # fmt: skip
"""Beginnings of messages about jobs that have no event, by which a logger could tell them."""

STOP_MESSAGES = ("Terminating processes on user request", "Will exit after finishing currently running jobs")
"""Beginnings of what Snakemake says when it is stopped by Ctrl-C and by a signal."""

LAST_ERROR = "At least one job did not complete successfully"
"""What Snakemake says at the end of every call that did not do all its jobs."""

DEFAULT_JOB_RATE = (100, 1)
"""Snakemake's --max-jobs-per-timespan, if none is given: number of jobs, seconds."""

EXECUTOR = "snakemake_executor_plugin_trainmark"
"""The package of trainmark's executor."""


@dataclass(frozen=True)
class Call:
    """The options of a call of snakemake, which it hands to no Snakefile.

    plans_jobs: whether this process plans the workflow. A job on a cluster node reads the Snakefile again.
    module: the name of this workflow in one that uses it with `module`; None if it is the main workflow.
    snakefile: the path of the main Snakefile.
    configfiles, config: the config files, and the values that replace theirs.
    config_of_module: whether the module's `config:` stands in for config files.
    moves_results: whether `prefix` or `replace_prefix` of the module change paths, which jobs know without them.
    runs_here: tells whether jobs run on this machine. That and the scheduler are known once jobs are planned.
    cores: the cores for all jobs; None where jobs are submitted and where none runs.
    runs_jobs: whether jobs run anywhere: with --report none does.
    scheduler: tells that of trainmark's executor; None with another executor.
    deployment: how Snakemake provides the software of jobs: "conda", "apptainer" or neither.
    prefixes: the folders that it keeps environments and images in, by way; empty for its own.
    hides_jobs: whether it does not print messages about jobs (--quiet rules).
    """

    plans_jobs: bool
    module: str | None
    config_of_module: bool
    moves_results: bool
    snakefile: str
    configfiles: list
    config: Mapping
    runs_here: Callable[[], bool]
    cores: int | None
    runs_jobs: bool
    scheduler: Callable[[], str | None]
    deployment: set[str]
    prefixes: dict[str, str]
    is_dry_run: bool
    hides_jobs: bool
    has_colour: bool


def call_of(workflow: Any) -> Call:
    """Return the options of a call. Snakemake keeps them in its settings groups, and documents none of these."""
    deployment, output = workflow.deployment_settings, workflow.output_settings
    methods = {method.name.lower() for method in deployment.deployment_method} & DEPLOYMENT_METHODS
    paths = workflow.modifier.path_modifier

    def scheduler() -> str | None:
        executor = workflow.executor_settings
        is_ours = type(executor).__module__ == EXECUTOR and not workflow.local_exec
        return executor.scheduler if is_ours else None

    return Call(
        plans_jobs=bool(workflow.is_main_process),
        module=workflow.modifier.namespace,
        config_of_module=bool(workflow.modifier.skip_configfile),
        moves_results=bool(paths.modifies_prefixes or paths.replace_prefix(RESULTS) != RESULTS),
        snakefile=workflow.main_snakefile,
        configfiles=list(workflow.overwrite_configfiles),
        config=workflow.config_settings.config,
        runs_here=lambda: bool(workflow.local_exec),
        cores=workflow.resource_settings.cores,
        runs_jobs=bool(workflow.resource_settings.cores or workflow.resource_settings.nodes),
        scheduler=scheduler,
        deployment=methods,
        prefixes={method: str(getattr(deployment, f"{method}_prefix") or "") for method in methods},
        is_dry_run=bool(output.dryrun),
        hides_jobs="rules" in map(str, output.quiet or ()),
        has_colour=not output.nocolor,
    )


def jobs_to_run(workflow: Any) -> list:
    """Return the jobs that Snakemake will run. To check them is cheaper than to fail in one of them."""
    return list(workflow.dag.needrun_jobs())


def lift_job_rate(workflow: Any) -> None:
    """Let jobs start at any rate, unless the user gave one (--max-jobs-per-timespan).

    With a rate, such as its default, Snakemake looks for jobs to start every second and, for each job that has ended
    while others wait, once more every second. After some dozen runs, this took more of two CPUs than a run may lose.
    """
    limiter = workflow.scheduler.job_rate_limiter
    if limiter and (limiter.max_jobs, limiter.timespan) == DEFAULT_JOB_RATE:
        workflow.scheduler.job_rate_limiter = None


def set_group_size(workflow: Any, group: str, size: int) -> None:
    """Say that the jobs of a group do not depend on each other, so that it may hold so many (--group-components)."""
    workflow.group_settings.group_components[group] = size


def failed_by_itself(workflow: Any) -> bool:
    """Return whether a workflow that ended with an error ended because jobs failed, and nobody interrupted it."""
    scheduler = workflow.scheduler
    return not (scheduler.running or not scheduler.failed or scheduler._user_kill)


def software_of(workflow: Any, rule: str, wildcards: Mapping[str, str]) -> tuple[str, Callable[[], str]]:
    """Return (the name of a job's conda file without its end, a function that calls the job's script with --help).

    The function returns what that prints as errors, in the job's own environment: a job whose environment lacks a
    package ends before it has a log. The name is empty for a job without an environment.
    """
    from snakemake.shell import shell

    same = (one for one in workflow.dag.jobs if (one.rule.name, one.wildcards_dict) == (rule, wildcards))
    job = next(same)

    def output_of_help() -> str:
        # No time limit: conda or Apptainer may take minutes to start. The job that failed has used the same way.
        text: str = shell(
            f"python {quote(job.params.script)} --help 2>&1 > /dev/null < /dev/null || true",
            read=True,
            conda_env=job.conda_env.address if job.conda_env and call_of(workflow).deployment == {"conda"} else None,
            container_img=job.container_img_path,
            singularity_args=workflow.deployment_settings.apptainer_args,
        )
        return text

    file = job.conda_env_spec.file.get_path_or_uri(secret_free=True) if job.conda_env_spec else ""
    return Path(file).stem, output_of_help


def call_at_start(workflow: Any, start: Callable[[], None]) -> None:
    """Make Snakemake call a function before the first job of a workflow that uses this one as a module, too.

    By default it calls only the `onstart` of the main Snakefile, which may come after the module.
    """

    def take(handler: Callable[[Any], None]) -> None:
        define(handler)
        if getattr(workflow._onstart, "func", None) is not _start_then:  # the handler of a module is passed over
            workflow._onstart = partial(_start_then, start, workflow._onstart)

    define, workflow.onstart = workflow.onstart, take
    workflow._onstart = partial(_start_then, start, workflow._onstart)


def _start_then(start: Callable[[], None], handler: Callable[[Any], None], log: Any) -> None:
    start()
    handler(log)


def replace_terminal_handler(make: Callable[[logging.Handler], Handler]) -> Handler | None:
    """Replace Snakemake's handler for the terminal by one that `make` returns for it; None if a logger took its place.

    A logger plug-in would need an installation and an option of the call, and gets no message of Snakemake's own.
    """
    from snakemake.logging import logger

    inner = next((handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"), None)
    if inner is None:
        return None
    handler = make(inner)
    logger.removeHandler(inner)
    logger.addHandler(handler)
    return handler
