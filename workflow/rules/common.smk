# The checked config and its campaign, from which the rules take the inputs and parameters of their jobs.
import gc
import os
import sys
from functools import cache, partial
from pathlib import Path

from snakemake.common import overwrite_function_params
from snakemake.settings.types import RerunTrigger

# The path starts from this file, because under `module` workflow.basedir is the folder of the main Snakefile. It is
# relative to the working directory, because an absolute path in a rule would make every result stale in a moved copy.
SCRIPTS = os.path.relpath(workflow.current_basedir.join("../scripts").get_path_or_uri(secret_free=True))
if not os.path.isdir(SCRIPTS):
    sys.exit(
        "trainmark's scripts are not on this machine: clone the repository, and give the module the path of the clone's"
        ' Snakefile (snakefile: "<clone>/Snakefile")'
    )
for folder in (os.path.abspath(f"{SCRIPTS}/../.."), os.getcwd()):
    if {*"{}"} & {*folder}:
        sys.exit(f"Snakemake takes braces in a path for a variable; rename the folder {folder}")
sys.path.append(SCRIPTS)

from trainmark.cluster.executor import PREVIEW_VARIABLE, cluster_of, prepare_executor, put_python_on_path
from trainmark.config.load import default_config, load_config
from trainmark.console import Terminal
from trainmark.errors import ConfigError, TrainmarkError
from trainmark.machine.gpus import find_gpus
from trainmark.plan import products
from trainmark.plan.campaign import Campaign, option, trainer_of
from trainmark.plan.code_digests import digest
from trainmark.plan.display import show_workflow, skip_hidden_jobs
from trainmark.plan.environments import conda_file, environment_of, environment_of_command, image_of_command
from trainmark.plan.environments import isolate_jobs, methods_of, required_image
from trainmark.plan.figures import known_figures
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import PARTIAL_VARIABLE, read_plan, refuse_other_folders
from trainmark.plan.products import EVALUATION_FILE, FIGURE_FOLDER, PLAN_FILE, RECORD_FILE, TABLE_FILES, TRACE_FILE
from trainmark.plan.products import TUNING_FILE
from trainmark.plan.reruns import count_attempts
from trainmark.plan.run import CERTIFICATE_FILE, OF_TRAINER, RUN_FOLDER, RUN_OPTIONS
from trainmark.recipes import command as command_recipe
from trainmark.trainer import DEVICES


def or_refuse(function, *arguments, **options):
    """Call a function. If it raises a TrainmarkError, exit with its message and without a traceback."""
    try:
        return function(*arguments, **options)
    except TrainmarkError as error:
        heading = "the config can't be used:\n" if isinstance(error, ConfigError) else ""
        sys.exit(f"{heading}{error}")  # Snakemake would print lines of a traceback after a WorkflowError


STDERR = Terminal(sys.stderr)  # writes on after its pipe has ended (snakemake ... 2>&1 | head)
gc.disable()  # until start(): a plan has millions of objects, nearly all of which live on, and no cycles that matter
put_python_on_path()
or_refuse(isolate_jobs, workflow)
MODULE = workflow.modifier.namespace  # name of this workflow in one that uses it as a module, else None
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
    PARTIAL = PARTIAL_VARIABLE in os.environ  # tables and report after a call in which jobs failed (plan/hooks.py)
    MISSING = or_refuse(read_plan, Path(PLAN_FILE))["missing"] if PARTIAL else {}
else:  # a job that reads the Snakefile again, e.g. on a cluster node, uses the devices of the planning process
    PLAN = or_refuse(read_plan, Path(PLAN_FILE))
    PLANNED, MISSING = PLAN["config"], PLAN["missing"]
CAMPAIGN = Campaign(PLANNED, CATALOGUE, MISSING)
if workflow.is_main_process:
    or_refuse(refuse_other_folders, Path(PLAN_FILE))
    AGAIN = CONFIG["rerun_disturbed"] and not PARTIAL
    CAMPAIGN.attempts, CAMPAIGN.repeated = count_attempts(Path(PLAN_FILE), CAMPAIGN.runs, AGAIN, STDERR)
    DISPLAY = None if MODULE else show_workflow(CAMPAIGN.order, workflow)
    skip_hidden_jobs(workflow)
    if PREVIEW_VARIABLE in os.environ:
        from trainmark.cluster.preview import Preview

        logger.handlers[:] = [or_refuse(Preview, os.environ[PREVIEW_VARIABLE], workflow)]
BEFORE_RUNS = CAMPAIGN.before_runs
HELD = []
STALE = {}  # what differs from the config, by the path of the result


wildcard_constraints:
    experiment="[a-z0-9-]+",
    dataset="[a-z0-9-]+",
    recipe="[a-z0-9-]+",
    framework="[a-z0-9-]+",
    device="|".join(DEVICES),
    trainer="|".join(map(str, CAMPAIGN.trainers_of_runs)) or "none",
    epochs="[0-9]+",
    repeat="[0-9]+",


def by_wildcards(function):
    """Return a function of wildcards alone, for which Snakemake need not look for further parameters in each job."""

    def look_up(wildcards):
        return function(wildcards)

    overwrite_function_params(look_up, {})
    return look_up


def remake_if_stale(changes, file):
    """Return an input function that returns no file, but makes Snakemake run the job if its output is stale.

    Code is compared only if changed parameters trigger jobs, so `--rerun-triggers mtime` keeps results of other code.

    changes: a method of the campaign that reads the output and returns what differs from the config.
    file: path of the output, with wildcards.
    """

    def look(wildcards):
        start_first()  # called again because the main Snakefile may define its onstart handler after the module
        if workflow.is_main_process:  # only this process plans jobs; a job that reads the Snakefile again does not
            if differences := changes(wildcards, RerunTrigger.PARAMS in workflow.rerun_triggers):
                path = file.format_map(wildcards)
                STALE[path] = differences
                workflow.dag.forcefiles.add(path)
        return []

    return look


def packed_images(wildcards):
    """Return the packed images that a training reads.

    Their age is ignored: they hold the images of the prepared dataset, which is an input itself, and may be deleted and
    made again.
    """
    return [ancient(file) for file in CAMPAIGN.packed_images(wildcards)]


def after_gpu_check(wildcards):
    """Return the check of a framework on the GPU (rule check_gpu), which its GPU runs wait for.

    The check is made in each call that trains on the GPU. It must not make finished runs stale, but Snakemake also makes
    a result again if its set of inputs has changed. Finished runs therefore keep the check as an input, with flags that
    ignore its age (ancient) and the job that makes it (before_update).
    """
    checks = products.gpu_check(trainer_of(wildcards))
    if not checks:
        return []
    record = RECORD_FILE.format_map(wildcards)
    if not os.path.exists(record) or record in STALE or CAMPAIGN.is_repeated(wildcards):
        if workflow.is_main_process:
            workflow.dag.forcefiles.update(checks)
        return checks
    for check in checks:  # a file without a job must exist
        Path(check).parent.mkdir(parents=True, exist_ok=True)
        Path(check).touch()
    return [ancient(before_update(check)) for check in checks]


STALE_RECORD = remake_if_stale(CAMPAIGN.stale_record, RECORD_FILE)


@by_wildcards
def inputs_of_run(wildcards):
    """Return the inputs of a training by name, and make Snakemake run it if its record is stale.

    They come from one function, because each one that Snakemake calls takes time in a matrix of thousands of runs.
    """
    return {
        "dataset": products.prepared_folder(wildcards.dataset),
        "mean": products.mean_array(wildcards.dataset, CAMPAIGN.catalogue),
        "packed": packed_images(wildcards),
        "weights": CAMPAIGN.initial_weights(wildcards),
        "tuning": CAMPAIGN.tuning(wildcards),
        "stale": STALE_RECORD(wildcards),
        "gpu": after_gpu_check(wildcards),
    }


@by_wildcards
def gpus_of_job(wildcards):
    """Return the number of GPUs of a framework's job.

    None omits the resource, so that a job on the CPU requests no GPU. Not every scheduler understands a request for 0.
    """
    return 1 if trainer_of(wildcards).device == "gpu" else None


@by_wildcards
def framework_environment(wildcards):
    """Return the conda file of a framework's job."""
    return str(conda_file(environment_of(trainer_of(wildcards))))


def command_environment(wildcards):
    """Return the conda file of a command; None if it needs none."""
    return or_refuse(
        environment_of_command, CAMPAIGN.command(wildcards), trainer_of(wildcards).device, methods_of(workflow)
    )


def command_image(wildcards):
    """Return the option that names the image in which a command runs."""
    command = CAMPAIGN.command(wildcards)
    device = trainer_of(wildcards).device
    return option("--image", or_refuse(image_of_command, command, device, methods_of(workflow)))


@cache
def image(environment):
    """Return the container image of an environment. Without --sdm apptainer there need not be one."""
    return or_refuse(required_image, environment) if "apptainer" in methods_of(workflow) else None


def framework_image(wildcards):
    """Return the container image of a framework's job."""
    return image(environment_of(trainer_of(wildcards)))


CONTAINER = by_wildcards(framework_image) if "apptainer" in methods_of(workflow) else None


@cache
def runs_per_job():
    """Return how many runs one job of the cluster trains."""
    cluster = or_refuse(cluster_of, workflow)
    return cluster[1].runs_per_job if cluster else 1


@by_wildcards
def group_of_run(wildcards):
    """Return the group of a run: on a cluster, one job may do several trainings (runs_per_job in the site file)."""
    size = runs_per_job() if workflow.is_main_process else 1
    if group := CAMPAIGN.group(wildcards, size):
        workflow.group_settings.group_components[group] = size  # its runs do not depend on each other
    return group


def start():
    """Prepare the workflow before the first job.

    The import is here because its packages may be missing in a dry run, which needs only Snakemake.
    """
    if HELD:  # already called: the workflow that uses this module also calls its onstart
        return
    if workflow.touch:  # no job makes anything, so Snakemake must not remove temporary files either
        workflow.storage_settings.notemp = True
        return
    from trainmark.plan.file_times import check_file_times
    from trainmark.plan.hooks import print_stale, start_workflow

    gc.freeze()
    gc.enable()
    jobs = list(workflow.dag.needrun_jobs())
    deployed = bool(methods_of(workflow))
    or_refuse(check_file_times, jobs)
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
    or_refuse(prepare_executor, workflow)
    print_stale(STALE, STDERR)
    if DISPLAY:
        DISPLAY.start(job.wildcards_dict for job in jobs if job.rule.name in products.TRAINING_RULES)


def finish():
    """Print the results after the last job, if none failed."""
    from trainmark.plan.hooks import print_results

    if DISPLAY:  # a module has none
        DISPLAY.stop()
    print_results(CAMPAIGN, STDERR)


def fail():
    """After the last job, if one failed, make the tables and the report of the runs that are done."""
    from trainmark.plan.hooks import finish_without, missing_runs

    if not (DISPLAY and HELD):
        return
    DISPLAY.stop()
    scheduler, targets = workflow.scheduler, workflow.dag_settings
    interrupted = scheduler.running or not scheduler.failed or scheduler._user_kill
    selected = targets.targets or targets.until or targets.omit_from
    forced = targets.forceall or targets.forcerun or targets.forcetargets
    if not (interrupted or selected or forced or PARTIAL):
        HELD.pop().close()
        missing = missing_runs(CAMPAIGN, DISPLAY.failures, DISPLAY.not_trained())
        configfiles = list(map(str, workflow.overwrite_configfiles))
        finish_without(CAMPAIGN, missing, workflow.main_snakefile, configfiles, STDERR)


def start_then(handler, log):
    """Call start() and then the onstart handler of the workflow that uses this one as a module."""
    start()
    handler(log)


def start_first():
    """Make Snakemake call start() in a module too. By default it calls only that of the main Snakefile."""
    if workflow.is_main_process and workflow.execution_settings and workflow.execution_settings.no_hooks:
        sys.exit(
            "--no-hooks leaves out trainmark's start, which writes the plan and locks the results; call without it"
        )
    if MODULE and getattr(workflow._onstart, "func", None) is not start_then:
        workflow._onstart = partial(start_then, workflow._onstart)


start_first()
