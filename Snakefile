# trainmark: train the same network in several frameworks, measure it honestly, compare it honestly.
import os

from snakemake.utils import min_version

min_version("9.0")
# A link to this file leads to its clone. The address of a module's Snakefile is no path.
CLONE = os.path.dirname(os.path.realpath(workflow.snakefile)) if os.path.islink(workflow.snakefile) else ""
RULES = os.path.join(CLONE, "workflow/rules")


include: f"{RULES}/common.smk"


if not workflow.overwrite_configfiles:

    # Files given with --configfile replace this one; the two are not merged.
    configfile: SESSION.default_config


rule all:
    """Every run, table and figure, and the report of the experiments in the config; every dataset that it names."""
    input:
        report=["results/report/index.html", "results/summary.json"] if CAMPAIGN.runs else [],
        certificates=CAMPAIGN.certificates,
        evaluations=CAMPAIGN.evaluations,
        tables=TABLE_FILES if CAMPAIGN.runs else [],
        figures=CAMPAIGN.figures,
        datasets=CAMPAIGN.products,
        claims=CHECKED_CLAIMS if CAMPAIGN.config["claims"] else [],


include: f"{RULES}/data.smk"
include: f"{RULES}/certify.smk"
include: f"{RULES}/train.smk"
include: f"{RULES}/command.smk"
include: f"{RULES}/report.smk"


onstart:
    SESSION.start()


onsuccess:
    SESSION.finish()


onerror:
    SESSION.fail()
