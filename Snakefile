# trainmark: train the same network in several frameworks, measure it honestly, compare it honestly.
from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"


if not workflow.overwrite_configfiles:

    # Files given with --configfile replace this one; the two are not merged.
    configfile: DEFAULT_CONFIG


rule all:
    """Every run, table and figure, and the report of the experiments in the config; every dataset that it names."""
    input:
        report=["results/report/index.html", "results/summary.json"] if CAMPAIGN.runs else [],
        certificates=CAMPAIGN.certificates,
        evaluations=CAMPAIGN.evaluations,
        tables=TABLE_FILES if CAMPAIGN.runs else [],
        datasets=CAMPAIGN.products,


include: "workflow/rules/data.smk"
include: "workflow/rules/certify.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/command.smk"
include: "workflow/rules/report.smk"


onstart:
    start()


onsuccess:
    finish()


onerror:
    fail()
