"""Makes the tables of a results folder from its records and certificates, for the rule collect_records."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from trainmark.config.references import read_references
from trainmark.files.checksums import sha256_of
from trainmark.files.whole import write_text, written_whole
from trainmark.parity.certificate import read_certificates
from trainmark.plan.matrix import certified_groups
from trainmark.plan.products import MANIFEST
from trainmark.plan.run import Run, of_trainer
from trainmark.records.evaluation import read_evaluation
from trainmark.records.tuning import read_tuning
from trainmark.report.terminal import terminal_text
from trainmark.tables import comparisons, tables
from trainmark.tables.agreement import agreement_table
from trainmark.tables.break_even import break_even_table
from trainmark.tables.claims import claims_table
from trainmark.tables.consistency import check_certificates, check_evaluations, check_records, check_tunings
from trainmark.tables.costs import currency_of
from trainmark.tables.curves import curves_table
from trainmark.tables.missing import missing_lines
from trainmark.tables.published import published_table
from trainmark.tables.run_checks import wrong_pairs
from trainmark.tables.scaling import scaling_table
from trainmark.tables.targets import targets_table
from trainmark.tables.tidy import numbers_table, tidy_table
from trainmark.tables.tuning import tuning_table
from trainmark.tables.variants import runs_of_variants, variants_table

Table = pd.DataFrame | str
"""The content of a file: a table for .parquet, a text for any other format."""

PARQUET = ("runs", "curves")
"""The tables of one row per run and per epoch, which are large."""


def collected(plan: Mapping, folder: Path) -> tuple[dict[str, Table], dict[str, str]]:
    """Make all tables of a results folder; return (tables by file name, SHA-256 of the source files by file).

    Raises RecordError or CertificateError if a source file can't be read or does not fit the others.
    """
    records = tables.read_records(folder, plan["records"])
    check_records(records)
    runs_of_records = [Run.of(record["run"]) for record in records.values()]
    certified = certified_groups(runs_of_records)
    certificates = read_certificates(folder, plan, certified)
    check_certificates(certificates, records.values())
    evaluations = {of: read_evaluation(folder / one["file"]) for of, one in plan["evaluations"].items()}
    check_evaluations(evaluations, records.values())
    of_runs = dict.fromkeys(map(of_trainer, runs_of_records))
    timed = {of: file for of in of_runs for file in plan["jobs"][of]["files"].get("tuning", ())}
    tunings = {of: read_tuning(folder / file) for of, file in timed.items()}
    check_tunings(tunings, records.values())
    runs = tables.runs_table(records, plan["order"], evaluations.values(), plan["config"]["prices"])
    wrong = wrong_pairs(records, certificates, evaluations.values())
    experiments = plan["config"]["experiments"]
    of_pairs = (runs, certificates, wrong, experiments)
    compared, curves = comparisons.comparisons_table(*of_pairs), curves_table(records)
    variants = variants_table(runs, records.values())
    made = {
        "runs": runs,
        "curves": curves,
        "summary": tables.summary_table(runs),
        "comparisons": compared,
        "variants": variants,
        "parity": comparisons.parity_table(*of_pairs),
        "agreement": agreement_table(records),
        "speed_ups": comparisons.speed_ups_table(compared, comparisons.baselines_of(runs, experiments)),
        "break_even": break_even_table(runs, compared),
        "targets": targets_table(runs),
        "tuning": tuning_table(tunings.values()),
        "scaling": scaling_table(pd.concat([compared, variants]), pd.concat([runs, runs_of_variants(runs)])),
        "published": published_table(runs, curves, records.values(), read_references()),
    }
    numbers = numbers_table(made, currency_of(plan["config"]))
    made["tidy"] = tidy_table(numbers)
    made["claims"] = claims_table(plan["config"].get("claims", []), numbers, made["parity"])
    content: dict[str, Table] = {f"{name}.parquet": made[name] for name in PARQUET}
    content |= {f"{name}.csv": table.to_csv(index=False) for name, table in made.items() if name not in PARQUET}
    missing = "".join(f"{line}\n\n" for line in missing_lines(plan))
    content["summary.txt"] = missing + terminal_text(made, certificates)
    sources = {
        **{plan["records"][record["run"]["id"]]: record["sha256"] for record in records.values()},
        **{plan["certificates"]["/".join(group)]["file"]: one["sha256"] for group, one in certificates.items()},
        **{plan["evaluations"][of]["file"]: evaluation["sha256"] for of, evaluation in evaluations.items()},
        **{timed[of]: tuning["sha256"] for of, tuning in tunings.items()},
    }
    return content, sources


def write_tables(content: Mapping[str, Table], sources: Mapping[str, str], plan: Mapping, folder: Path) -> None:
    """Write the tables, and a manifest with the SHA-256 of their source files and of the tables themselves."""
    for outdated in folder.glob("made_*"):  # of another campaign, whose tables these replace
        outdated.unlink()
    for name, table in content.items():
        if isinstance(table, str):
            write_text(folder / name, table)
        else:
            with written_whole(folder / name) as part:
                table.to_parquet(part, index=False)
    digests = {name: sha256_of(folder / name) for name in content}
    manifest = {"order": plan["order"], "made_of": dict(sources), "tables": digests}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
