# The checked config and the campaign that it asks for, in which the rules look up what their jobs depend on.
import os
import sys
from functools import partial
from pathlib import Path

from snakemake.settings.types import RerunTrigger

# Found from this file, since under `module` workflow.basedir is the folder of the main Snakefile.
# Relative to the working directory: an absolute path in a rule would make every result stale in a moved copy.
SCRIPTS = os.path.relpath(workflow.current_basedir.join("../scripts").get_path_or_uri(secret_free=True))
if not os.path.isdir(SCRIPTS):
    sys.exit(
        "trainmark's scripts are not on this machine: clone the repository, and give the module the path of the clone's"
        ' Snakefile (snakefile: "<clone>/Snakefile")'
    )
sys.path.append(SCRIPTS)

from trainmark.config.load import default_config, load_config
from trainmark.errors import ConfigError, TrainmarkError
from trainmark.machine.gpus import find_gpus
from trainmark.plan import products
from trainmark.plan.campaign import Campaign, option
from trainmark.plan.code_digests import digest
from trainmark.plan.display import show_workflow
from trainmark.plan.figures import known_figures
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import PARTIAL_VARIABLE, read_plan
from trainmark.plan.products import EVALUATION_FILE, FIGURE_FILE, PLAN_FILE, RECORD_FILE, TABLE_FILES, TRACE_FILE
from trainmark.plan.reruns import count_attempts
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER


def or_refuse(function, *arguments, **options):
    """Call a function; what it refuses is a sentence, and no traceback."""
    try:
        return function(*arguments, **options)
    except TrainmarkError as error:
        heading = "the config can't be used:\n" if isinstance(error, ConfigError) else ""
        sys.exit(f"{heading}{error}")  # a WorkflowError would be followed by lines of a traceback


MODULE = workflow.modifier.namespace  # its name in a workflow that uses this one as a module, else None
DEFAULT_CONFIG = str(default_config())
PATHS = workflow.modifier.path_modifier
if PATHS.modifies_prefixes or PATHS.replace_prefix(PLAN_FILE) != PLAN_FILE:
    sys.exit(
        f"the module {MODULE} has a prefix or replace_prefix, which trainmark does not support;"
        " leave it out, and choose the folder with snakemake --directory"
    )
if workflow.modifier.skip_configfile:  # a module with `config:`
    GIVEN = ([], config, f"config of the module {MODULE}")
else:
    GIVEN = (workflow.overwrite_configfiles or [DEFAULT_CONFIG], workflow.config_settings.config)
CONFIG, CATALOGUE = or_refuse(load_config, *GIVEN, fetches=workflow.is_main_process)
if workflow.is_main_process:
    GPU_FOUND = bool(find_gpus())
    PLANNED = or_refuse(with_devices, CONFIG, GPU_FOUND)
    PARTIAL = PARTIAL_VARIABLE in os.environ  # plan/hooks.py: tables and report of the runs that a failed call left
    MISSING = or_refuse(read_plan, Path(PLAN_FILE))["missing"] if PARTIAL else {}
else:  # a job that reads the Snakefile anew, on a node of a cluster, takes the devices that were found where it was planned
    PLAN = or_refuse(read_plan, Path(PLAN_FILE))
    PLANNED, MISSING = PLAN["config"], PLAN["missing"]
CAMPAIGN = Campaign(PLANNED, CATALOGUE, MISSING)
if workflow.is_main_process:
    AGAIN = CONFIG["rerun_disturbed"] and not PARTIAL
    CAMPAIGN.attempts = count_attempts(Path(PLAN_FILE), CAMPAIGN.runs, AGAIN, sys.stderr)
    DISPLAY = None if MODULE else show_workflow(CAMPAIGN.order, workflow)
BEFORE_RUNS = CAMPAIGN.before_runs
HELD = []
STALE = {}  # what of a record or a certificate is not as asked, by its path


wildcard_constraints:
    experiment="[a-z0-9-]+",
    dataset="[a-z0-9-]+",
    recipe="[a-z0-9-]+",
    framework="[a-z0-9-]+",
    device="cpu|gpu",
    epochs="[0-9]+",
    repeat="[0-9]+",
    figure="|".join(known_figures()),


def made_anew(changes, file):
    """An input function that names no file, and has a job run whose output is not what the config asks for.

    changes: a function of the campaign that tells what of it is not, from the file itself. Code counts only where
    parameters trigger, in which Snakemake is told of it: `--rerun-triggers mtime` keeps what other code made.
    """

    def look(wildcards):
        start_first()  # again: the main Snakefile may define its onstart handler after the module
        if workflow.is_main_process:  # a job that reads the Snakefile anew was asked for already
            if changed := changes(wildcards, RerunTrigger.PARAMS in workflow.rerun_triggers):
                path = file.format_map(wildcards)
                STALE[path] = changed
                workflow.dag.forcefiles.add(path)
        return []

    return look


def start():
    """Before the first job. What this imports is not there in a dry run, which needs Snakemake alone."""
    if HELD:  # the workflow that uses this module calls its onstart too
        return
    from trainmark.plan.hooks import print_stale, start_workflow

    jobs = list(workflow.dag.needrun_jobs())
    deployed = bool(workflow.deployment_settings.deployment_method)
    HELD.append(
        or_refuse(
            start_workflow,
            CAMPAIGN,
            CONFIG,
            jobs,
            gpu_found=GPU_FOUND,
            local=workflow.local_exec,
            deployed=deployed,
        )
    )
    print_stale(STALE, sys.stderr)
    if DISPLAY:
        DISPLAY.start(job.wildcards_dict for job in jobs if job.rule.name == "train")


def finish():
    """After the last job, where none failed."""
    from trainmark.plan.hooks import print_results

    DISPLAY.stop()
    print_results(CAMPAIGN, sys.stderr)


def fail():
    """After the last job, where one failed: tables and report of the runs that are done."""
    from trainmark.plan.hooks import finish_without, missing_runs

    DISPLAY.stop()
    scheduler, asked = workflow.scheduler, workflow.dag_settings
    interrupted = scheduler.running or not scheduler.failed or scheduler._user_kill
    part = asked.targets or asked.until or asked.omit_from or asked.forceall or asked.forcerun or asked.forcetargets
    if not (interrupted or part or PARTIAL):
        HELD.pop().close()
        finish_without(CAMPAIGN, missing_runs(CAMPAIGN, DISPLAY.failures, DISPLAY.not_trained()), sys.stderr)


def start_then(handler, log):
    """The onstart handler of a workflow that uses this one as a module: start(), then that workflow's own handler."""
    start()
    handler(log)


def start_first():
    """Make Snakemake call start() in a module too: by itself it calls the onstart handler of the main Snakefile only."""
    if MODULE and getattr(workflow._onstart, "func", None) is not start_then:
        workflow._onstart = partial(start_then, workflow._onstart)


start_first()
