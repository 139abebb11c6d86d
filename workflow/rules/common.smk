# The checked config, the runs it asks for, and what the rules look up in them.
import json
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Relative to the working directory: an absolute path in a rule would make every result stale in a moved copy.
SCRIPTS = os.path.relpath(Path(workflow.basedir) / "workflow" / "scripts")
sys.path.append(SCRIPTS)

import trainmark.plan.products as dataset_files
from trainmark.config.load import load_config
from trainmark.machine.gpus import find_gpus, no_gpu_message
from trainmark.errors import ConfigError, TrainmarkError
from trainmark.plan.dependencies import preparing_code, recipe_values, report_code, tracing_code, training_code
from trainmark.plan.matrix import certified_groups, expand_runs, trained_order
from trainmark.recipes.catalogue import RECIPES
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER
from trainmark.plan.code_digests import digest

HELD = []
PLAN_FILE = "results/plan.json"
RECORD_FILE = f"results/runs/{RUN_FOLDER}/record.json"


def checked_config():
    """The config with defaults, and the catalogue; every mistake in them as one line, before any job starts."""
    files = workflow.overwrite_configfiles or ["config/config.yaml"]
    try:
        return load_config(files, workflow.config_settings.config)
    except ConfigError as error:
        raise WorkflowError(f"the config can't be used:\n{error}") from None


SETTINGS, CATALOGUE = checked_config()
GPUS = find_gpus()
RUNS = expand_runs(SETTINGS, gpu_found=bool(GPUS))
ORDER = [run.id for run in trained_order(RUNS, SETTINGS)]
RECORDS = [RECORD_FILE.format_map(vars(run)) for run in RUNS]
GROUPS = sorted({(run.experiment, run.recipe, run.dataset) for run in RUNS})
PRODUCTS = dataset_files.products(sorted({run.dataset for run in RUNS} | set(SETTINGS["prepare"])), CATALOGUE)
FIGURE_FILE = "results/figures/{experiment}/{recipe}/{dataset}/"
FIGURES = ("curves", "training_time")
FIGURE_FORMATS = ("pdf", "svg", "png")
TURNS = {run_id: turn for turn, run_id in enumerate(reversed(ORDER), start=1)}
DATA_FIRST = len(ORDER) + 1  # a priority above every run's
# By environment, not as parameters: none of these makes a result stale.
os.environ.update(TRAINMARK_WORKFLOW_PID=str(os.getpid()))
if SETTINGS["mirror"]:
    os.environ.update(TRAINMARK_MIRROR=SETTINGS["mirror"])
if SETTINGS["offline"]:
    os.environ.update(TRAINMARK_OFFLINE="1")


wildcard_constraints:
    experiment="[a-z0-9-]+",
    dataset="[a-z0-9-]+",
    recipe="[a-z0-9-]+",
    framework="[a-z0-9-]+",
    device="cpu|gpu",
    epochs="[0-9]+",
    repeat="[0-9]+",


def setting(key):
    """A function of wildcards that gives a key of the run's experiment; mappings as JSON, for the command line."""

    def value(wildcards):
        found = SETTINGS["experiments"][wildcards.experiment][key]
        return json.dumps(found, sort_keys=True) if isinstance(found, dict) else found

    return value


def code_of_run(wildcards):
    """Digest of the code that trains a run: where it changes, the run is stale."""
    return digest(*training_code(RECIPES[wildcards.recipe], wildcards.framework))


def recipe_of_run(wildcards):
    """What the recipe decides of a run: where it changes, the run is stale."""
    return json.dumps(recipe_values(RECIPES[wildcards.recipe]), sort_keys=True)


def shown_of_recipes():
    """What the report prints of the recipes, beside its runs: where it changes, the page is stale."""
    keys = ("input_shape", "published_parameters", "published_classes", "source")
    names = sorted({run.recipe for run in RUNS})
    return json.dumps({name: [getattr(RECIPES[name], key) for key in keys] for name in names})


def turn_of_run(wildcards):
    """Priority of a run: the earlier its place in the order, the higher."""
    return TURNS[RUN_FOLDER.format_map(wildcards)]


def of_dataset(look_up):
    """A function of a dataset's name and the catalogue as one of wildcards."""
    return lambda wildcards: look_up(wildcards.dataset, CATALOGUE)


def mean_option(wildcards, input):
    """The command line's part on the mean image of a run's dataset; texts have none."""
    return option("--mean", input.mean)


def option(name, files):
    """A command line's option and its file, where there is one."""
    return f"{name} {shlex.quote(str(files))}" if files else ""


def figure_files(name):
    """Output files of a figure, by format, marked for `snakemake --report` where it can show them."""
    files = {kind: f"{FIGURE_FILE}{name}.{kind}" for kind in FIGURE_FORMATS}
    labels = {"experiment": "{experiment}", "recipe": "{recipe}", "dataset": "{dataset}", "figure": name}
    return files | {"svg": report(files["svg"], category="Figures", caption=f"../report/{name}.rst", labels=labels)}


def start_checks():
    """Before the first job: stop where another workflow or a missing GPU is in the way; write down the plan."""
    from trainmark.machine.locks import hold_directory  # not before: a dry run needs nothing but Snakemake

    try:
        HELD.append(hold_directory(Path.cwd()))
    except TrainmarkError as error:
        raise WorkflowError(str(error)) from None
    asking = [name for name, part in SETTINGS["experiments"].items() if "gpu" in part["devices"]]
    if asking and workflow.local_exec and not GPUS:
        raise WorkflowError(no_gpu_message(f"the experiment {asking[0]}"))
    # Without the mirror, whose address may hold a key: sources.json says where each file came from.
    shown = {key: SETTINGS[key] for key in ("experiments", "prepare", "datasets")}
    plan = {"config": shown, "runs": [run.id for run in RUNS], "order": ORDER}
    Path(PLAN_FILE).parent.mkdir(parents=True, exist_ok=True)
    Path(PLAN_FILE).write_text(json.dumps(plan, indent=2) + "\n")


def show_results():
    """After the last job: the datasets prepared without a run, the table of results and where the report is."""
    for name in SETTINGS["prepare"]:
        manifest_file = Path(dataset_files.prepared_folder(name)) / "manifest.json"
        if manifest_file.exists():
            print(dataset_files.described(json.loads(manifest_file.read_text())), file=sys.stderr)
    summary = Path("results/tables/summary.txt")
    report_file = Path("results/report/index.html")
    if RUNS and summary.exists() and report_file.exists():
        print(f"\n{summary.read_text()}\nReport: {report_file.resolve()}", file=sys.stderr)
