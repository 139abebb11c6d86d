# The campaign of the config, and the session from which rules take inputs, resources and software of their jobs.
import os
import sys

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

from trainmark.plan import products
from trainmark.plan.campaign import by_wildcards, option, trainer_of
from trainmark.plan.code_digests import digest
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.products import EVALUATION_FILE, FIGURE_FOLDER, PLAN_FILE, RECORD_FILE, TABLE_FILES, TRACE_FILE
from trainmark.plan.products import CHECKED_CLAIMS, PAPER_STAMP, TUNING_FILE
from trainmark.plan.run import CERTIFICATE_FILE, OF_TRAINER, RUN_FOLDER, RUN_OPTIONS
from trainmark.recipes import command as command_recipe
from trainmark.session import Session
from trainmark.trainer import DEVICES

SESSION = Session(workflow, config)
CAMPAIGN = SESSION.campaign
BEFORE_RUNS = CAMPAIGN.before_runs


wildcard_constraints:
    experiment="[a-z0-9._-]+",  # with a variant, "optimizers.adam"
    dataset="[a-z0-9-]+",
    recipe="[a-z0-9-]+",
    framework="[a-z0-9-]+",
    device="|".join(DEVICES),
    trainer="|".join(map(str, CAMPAIGN.trainers_of_runs)) or "none",
    epochs="[0-9]+",
    repeat="[0-9]+",
