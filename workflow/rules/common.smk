# The checked config and the campaign that it asks for, in which the rules look up what their jobs depend on.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import RerunTrigger

# Relative to the working directory: an absolute path in a rule would make every result stale in a moved copy.
SCRIPTS = os.path.relpath(Path(workflow.basedir) / "workflow" / "scripts")
sys.path.append(SCRIPTS)

from trainmark.config.load import load_config
from trainmark.errors import ConfigError, TrainmarkError
from trainmark.machine.gpus import find_gpus
from trainmark.plan import products
from trainmark.plan.campaign import Campaign, option
from trainmark.plan.code_digests import digest
from trainmark.plan.figures import known_figures
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import read_plan
from trainmark.plan.products import EVALUATION_FILE, FIGURE_FILE, PLAN_FILE, RECORD_FILE, TABLE_FILES, TRACE_FILE
from trainmark.plan.reruns import count_attempts
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER


def or_refuse(function, *arguments, **options):
    """Call a function; what it refuses is a sentence, and no traceback."""
    try:
        return function(*arguments, **options)
    except TrainmarkError as error:
        heading = "the config can't be used:\n" if isinstance(error, ConfigError) else ""
        raise WorkflowError(f"{heading}{error}") from None


CONFIG, CATALOGUE = or_refuse(
    load_config,
    workflow.overwrite_configfiles or ["config/config.yaml"],
    workflow.config_settings.config,
    fetches=workflow.is_main_process,
)
if workflow.is_main_process:
    GPU_FOUND = bool(find_gpus())
    PLANNED = with_devices(CONFIG, GPU_FOUND)
else:  # a job that reads the Snakefile anew, on a node of a cluster, takes the devices that were found where it was planned
    PLANNED = or_refuse(read_plan, Path(PLAN_FILE))["config"]
CAMPAIGN = Campaign(PLANNED, CATALOGUE)
if workflow.is_main_process:
    CAMPAIGN.attempts = count_attempts(Path(PLAN_FILE), CAMPAIGN.runs, CONFIG["rerun_disturbed"], sys.stderr)
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
        if workflow.is_main_process:  # a job that reads the Snakefile anew was asked for already
            if changed := changes(wildcards, RerunTrigger.PARAMS in workflow.rerun_triggers):
                path = file.format_map(wildcards)
                STALE[path] = changed
                workflow.dag.forcefiles.add(path)
        return []

    return look


def start():
    """Before the first job. What this imports is not there in a dry run, which needs Snakemake alone."""
    from trainmark.plan.hooks import print_stale, start_workflow

    HELD.append(or_refuse(start_workflow, CAMPAIGN, CONFIG, gpu_found=GPU_FOUND, local=workflow.local_exec))
    print_stale(STALE, sys.stderr)


def finish():
    """After the last job."""
    from trainmark.plan.hooks import print_results

    print_results(CAMPAIGN, sys.stderr)
