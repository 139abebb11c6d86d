"""What trainmark uses of Snakemake beyond its documented interface: one function for each, with the reason.

Each is tested on the locked Snakemake by tests/workflow/test_internals.py, which names the one that broke.
`workflow` is Snakemake's object of that name. Its settings groups and properties of the command line
(`output_settings.quiet`, `touch`, `local_exec`, ...) are read here, too, since Snakemake documents none of them.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

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


# --- what was asked for -------------------------------------------------------------------------------------------


def plans_jobs(workflow: Any) -> bool:
    """Return whether this process plans the workflow. A job on a cluster node reads the Snakefile again."""
    return bool(workflow.is_main_process)


def name_of_module(workflow: Any) -> str | None:
    """Return the name of this workflow in one that uses it with `module`; None if it is the main workflow."""
    name: str | None = workflow.modifier.namespace
    return name


def changes_paths(workflow: Any, path: str) -> bool:
    """Return whether `prefix` or `replace_prefix` of a module change a path."""
    paths = workflow.modifier.path_modifier
    return bool(paths.modifies_prefixes or paths.replace_prefix(path) != path)


def given_config(workflow: Any, config: Mapping, default: str) -> tuple[list, Mapping, str | None]:
    """Return the config files, the values that replace theirs, and what to call these in messages; None: --config.

    config: Snakemake's `config`. default: the file if none is given. A module with `config:` has no files.
    """
    if workflow.modifier.skip_configfile:
        return [], config, f"config of the module {name_of_module(workflow)}"
    return workflow.overwrite_configfiles or [default], workflow.config_settings.config, None


def files_of_call(workflow: Any) -> list[str]:
    """Return the options of a further call of snakemake for the same Snakefile and config files."""
    configfiles = list(map(str, workflow.overwrite_configfiles))
    return ["--snakefile", workflow.main_snakefile, *(["--configfile", *configfiles] if configfiles else [])]


def is_touch(workflow: Any) -> bool:
    """Return whether the call is --touch."""
    return bool(workflow.touch)


def keep_temporary_files(workflow: Any) -> None:
    """Let the call remove no temporary files (--notemp)."""
    workflow.storage_settings.notemp = True


def lift_job_rate(workflow: Any) -> None:
    """Let jobs start at any rate, unless the user gave one (--max-jobs-per-timespan).

    With a rate, such as its default, Snakemake looks for jobs to start every second and, for each job that has ended
    while others wait, once more every second. After some dozen runs, this took more of two CPUs than a run may lose.
    """
    limiter = workflow.scheduler.job_rate_limiter
    if limiter and (limiter.max_jobs, limiter.timespan) == DEFAULT_JOB_RATE:
        workflow.scheduler.job_rate_limiter = None


def makes_selected(workflow: Any) -> bool:
    """Return whether the call was asked for some results only, or to make some again."""
    asked = workflow.dag_settings
    return bool(asked.targets or asked.until or asked.omit_from) or forces_jobs(workflow)


def make_folder_by(workflow: Any, folder: str, stamp: str) -> None:
    """Let a call that asks for a folder ask for a file in it, so that no rule needs to have the folder as its output.

    Snakemake deletes an output folder before its job and after a failed one, with all in it. With `update` it copies
    the folder and copies it back: edits during the job are lost, and a kill makes later calls fail.
    """
    paths = workflow.modifier_stack[0].path_modifier  # of the main workflow: a module's are not for targets
    apply = paths.apply_default_storage

    def apply_to_stamp(path: Any) -> Any:
        # Only what the call asks for: inputs of rules are read before its settings are known, or once there are jobs.
        if workflow.dag_settings is None or workflow._dag is not None or not isinstance(path, str):
            return apply(path)
        return apply(stamp if path.rstrip("/").endswith(folder) and os.path.relpath(path) == folder else path)

    paths.apply_default_storage = apply_to_stamp


def forces_jobs(workflow: Any) -> bool:
    """Return whether the call was asked to make results again that are up to date (--force and the like)."""
    asked = workflow.dag_settings
    return bool(asked.forceall or asked.forcerun or asked.forcetargets)


def compares_parameters(workflow: Any) -> bool:
    """Return whether changed parameters make a result stale (--rerun-triggers)."""
    return "params" in map(str, workflow.rerun_triggers)


def has_no_hooks(workflow: Any) -> bool:
    """Return whether the call is --no-hooks. A call that only lists rules or jobs has no settings of the execution."""
    return bool(workflow.execution_settings and workflow.execution_settings.no_hooks)


def hides_jobs(workflow: Any) -> bool:
    """Return whether the call does not print messages about jobs (--quiet rules)."""
    return "rules" in map(str, workflow.output_settings.quiet or ())


def is_dry_run(workflow: Any) -> bool:
    """Return whether the call is --dry-run."""
    return bool(workflow.output_settings.dryrun)


def has_colour(workflow: Any) -> bool:
    """Return whether the call may print in colour."""
    return not workflow.output_settings.nocolor


def runs_here(workflow: Any) -> bool:
    """Return whether jobs run on this machine."""
    return bool(workflow.local_exec)


def cluster_profile(workflow: Any) -> str | None:
    """Return the scheduler of trainmark's executor; None with another executor."""
    settings = workflow.executor_settings
    is_ours = type(settings).__module__ == EXECUTOR and not workflow.local_exec
    return settings.scheduler if is_ours else None


def deployment_methods(workflow: Any) -> set[str]:
    """Return how Snakemake provides the software of jobs: by "conda", "apptainer" or neither."""
    return {method.name.lower() for method in workflow.deployment_settings.deployment_method} & DEPLOYMENT_METHODS


def deployment_prefix(workflow: Any, method: str) -> str:
    """Return the folder that Snakemake keeps conda environments or images in; empty for its own."""
    return str(getattr(workflow.deployment_settings, f"{method}_prefix") or "")


def add_container_option(workflow: Any, option: str) -> None:
    """Add an option to the command that starts a container, if it is not there."""
    settings = workflow.deployment_settings
    if option not in settings.apptainer_args:
        settings.apptainer_args += f" {option}"


# --- jobs ---------------------------------------------------------------------------------------------------------


def make_again(workflow: Any, paths: Iterable[str]) -> None:
    """Make results again although Snakemake finds them up to date. Only their content says that they are not."""
    workflow.dag.forcefiles.update(paths)


def ancient(file: str) -> Any:
    """Flag an input as one whose age is ignored, as `ancient` in a Snakefile, which is documented only there."""
    from snakemake.io import ancient

    return ancient(file)


def before_update(file: str) -> Any:
    """Flag an input as one that must only be there, whatever makes it, as `before_update` in a Snakefile."""
    from snakemake.ioflags import before_update

    return before_update(file)


def dated_inputs(job: Any) -> list[str]:
    """Return the inputs of a job whose age counts."""
    return [str(file) for file in job.input if not file.is_ancient]


def jobs_to_run(workflow: Any) -> list:
    """Return the jobs that Snakemake will run. To check them is cheaper than to fail in one of them."""
    return list(workflow.dag.needrun_jobs())


def submitted_rules(workflow: Any) -> list[str]:
    """Return the names of the rules whose jobs are submitted. `is_local` calls all of them local in a dry run."""
    return sorted(rule.name for rule in workflow.rules if rule.name not in workflow._localrules)


def set_group_size(workflow: Any, group: str, size: int) -> None:
    """Say that the jobs of a group do not depend on each other, so that it may hold so many (--group-components)."""
    workflow.group_settings.group_components[group] = size


def failed_by_itself(workflow: Any) -> bool:
    """Return whether a workflow that ended with an error ended because jobs failed, and nobody interrupted it."""
    scheduler = workflow.scheduler
    return not (scheduler.running or not scheduler.failed or scheduler._user_kill)


def environment_of_job(workflow: Any, rule: str, wildcards: Mapping[str, str]) -> str | None:
    """Return the name of a job's conda file without its end; None if it has none."""
    job = _job(workflow, rule, wildcards)
    return Path(job.conda_env_spec.file.get_path_or_uri(secret_free=True)).stem if job and job.conda_env_spec else None


def output_of_help(workflow: Any, rule: str, wildcards: Mapping[str, str]) -> str:
    """Return what the script of a job prints as errors if it is called with --help, in the job's own environment.

    A job whose environment lacks a package ends before it has a log.
    """
    from snakemake.shell import shell

    job = _job(workflow, rule, wildcards)
    # No time limit: conda or Apptainer may take minutes to start. The job that failed has used the same way.
    text: str = shell(
        f"python {quote(job.params.script)} --help 2>&1 > /dev/null < /dev/null || true",
        read=True,
        conda_env=job.conda_env.address if deployment_methods(workflow) == {"conda"} else None,
        container_img=job.container_img_path,
        singularity_args=workflow.deployment_settings.apptainer_args,
    )
    return text


def _job(workflow: Any, rule: str, wildcards: Mapping[str, str]) -> Any:
    same = (one for one in workflow.dag.jobs if (one.rule.name, one.wildcards_dict) == (rule, wildcards))
    return next(same, None)


# --- hooks and messages -------------------------------------------------------------------------------------------


def call_at_start(workflow: Any, start: Callable[[], None]) -> None:
    """Make Snakemake call a function before the first job of a workflow that uses this one as a module, too.

    By default it calls only the `onstart` of the main Snakefile, which may come after the module.
    """
    if getattr(workflow._onstart, "func", None) is not _start_then:
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


def replace_all_handlers(handler: logging.Handler) -> None:
    """Pass Snakemake's messages to one handler alone."""
    from snakemake.logging import logger

    logger.handlers[:] = [handler]


def print_one_job_of_each_rule() -> None:
    """Let a dry run prepare the message about one job of each rule only, unless a logger shows all of them.

    Snakemake prepares the message of every job, which takes a quarter of the time of a large dry run, before `quiet`
    hides it. One job of each rule is enough to find mistakes in values that only the message needs, such as resources.
    """
    from snakemake.executors.dryrun import Executor
    from snakemake.logging import logger

    if len(logger.handlers) > 1:
        return
    print_job, printed = Executor.printjob, set()

    def print_first(executor: Any, job: Any) -> None:
        if job.name not in printed:
            printed.add(job.name)
            print_job(executor, job)

    Executor.printjob = print_first
