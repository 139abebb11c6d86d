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
    """Every run, table and figure, and the report of the experiments in the config; every dataset under `prepare`."""
    input:
        report=reported([*REPORT_FILES, CAMPAIGN.report_made]) if CAMPAIGN.reports else [],
        tables=reported([*TABLE_FILES, CAMPAIGN.tables_made]) if CAMPAIGN.reports else [],
        figures=reported(CAMPAIGN.figures) if CAMPAIGN.reports else [],
        claims=CHECKED_CLAIMS if CAMPAIGN.reports and CAMPAIGN.config["claims"] else [],
        certificates=final(CAMPAIGN.certificates) if CAMPAIGN.reports else [],
        evaluations=final(CAMPAIGN.evaluations) if CAMPAIGN.reports else [],
        tunings=final(CAMPAIGN.tunings) if CAMPAIGN.reports else [],
        records=SESSION.asked_records,
        datasets=final(CAMPAIGN.prepared),


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
