# The campaign of the config, and the session from which rules take inputs, resources and software of their jobs.
import os
import sys

# The path starts from this file, because under `module` workflow.basedir is the folder of the main Snakefile. It is
# relative to the working directory, because with an absolute path in a rule a moved copy would make its tables again.
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

from trainmark.plan import products
from trainmark.plan.campaign import option
from trainmark.plan.code_digests import digest
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.products import ATTEMPT, CHECKED_CLAIMS, KEY, REPORT_FILES, RESULTS, TABLE_FILES
from trainmark.plan.run import OF_TRAINER, RUN_FOLDER
from trainmark.recipes import command as command_recipe
from trainmark.session.resources import for_each_worker, gpus, gpus_of_workers, launcher, tasks
from trainmark.session.session import Session
from trainmark.trainer import DEVICES

SESSION = Session(workflow, config)
CAMPAIGN = SESSION.campaign
RESOURCES = SESSION.resources
IS_REPORTED = all(map(SESSION.is_made, CAMPAIGN.all_files))
BEFORE_RUNS = CAMPAIGN.before_runs
DATASET = f"{RESULTS}/{products.DATASET}"


def final(files):
    """The files with those that are there as what they are: no rule makes them again. Their paths say what made them."""
    return [before_update(file) if SESSION.is_made(file) else file for file in files]


def reported(files):
    """Files made of the records, as `final` does if all of them are there; otherwise Snakemake's file times decide."""
    return final(files) if IS_REPORTED else files


def trained(look_up):
    """A value by the wildcards of a job with a trainer; the value itself if all trainings of the plan have the same.

    Snakemake takes a tenth of a millisecond for each function of each job, and there may be thousands of jobs.
    """
    values = [look_up(training) for training in CAMPAIGN.trainings]
    return values[0] if values and all(value == values[0] for value in values) else look_up


def read(*names):
    """The inputs of a job with a trainer, by the names of Campaign.reads; without what no training reads."""
    found = {name: trained(_reads(name)) for name in names}
    return {name: files for name, files in found.items() if files != []}


def asked(**look_ups):
    """Resources of a job with a trainer, by name; without those that no training of the plan asks for."""
    found = {name: trained(look_up) for name, look_up in look_ups.items()}
    return {name: amount for name, amount in found.items() if amount}


def _reads(name):
    return lambda wildcards: final(CAMPAIGN.reads(name, wildcards))


# Where jobs run is known once they are planned; where that makes no difference, all of them have one number.
JOB_THREADS = (
    trained(RESOURCES.threads) if all(map(RESOURCES.takes_all_threads, CAMPAIGN.trainings)) else RESOURCES.threads
)
LAUNCHER = " --launcher={resources.mpi:q}" if "mpi" in asked(mpi=launcher) else ""


wildcard_constraints:
    experiment="[a-z0-9._-]+",  # with a variant, "optimizers.adam"
    dataset="[a-z0-9-]+",
    recipe="[a-z0-9-]+",
    framework="[a-z0-9-]+",
    device="|".join(DEVICES),
    trainer="|".join(map(str, CAMPAIGN.trainers_of_runs)) or "none",
    epochs="[0-9]+",
    repeat="[0-9]+",
    key=KEY,
