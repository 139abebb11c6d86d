"""Makes the tables of a results folder from its records and certificates, for the rule collect_records."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pandas as pd

from trainmark.checks.campaign import check_certificates, check_evaluations, check_records, check_tunings
from trainmark.checks.pairs_of_runs import wrong_pairs
from trainmark.checks.records import read_records
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
from trainmark.tables.agreement import agreement_rows
from trainmark.tables.costs import currency_of
from trainmark.tables.curves import curves_table
from trainmark.tables.numbers import numbers_table
from trainmark.tables.published import published_rows
from trainmark.tables.runs import runs_table
from trainmark.tables.sections import Results
from trainmark.tables.trainers import Certificates, command_pairs, is_compared, parity_table, trainer_pairs
from trainmark.tables.tuning import tuning_rows
from trainmark.tables.variants import variant_pairs


def collected(plan: Mapping, folder: Path) -> tuple[dict[str, pd.DataFrame | str], dict[str, str]]:
    """Make all tables of a results folder; return (their content by file name, SHA-256 of the source files by file).

    Raises RecordError or CertificateError if a source file can't be read or does not fit the others.
    """
    records = read_records(folder, plan["records"])
    check_records(records)
    runs_of_records = [Run.of(record["run"]) for record in records.values()]
    certificates = read_certificates(folder, plan, certified_groups(runs_of_records))
    check_certificates(certificates, records.values())
    evaluations = {of: read_evaluation(folder / one["file"]) for of, one in plan["evaluations"].items()}
    check_evaluations(evaluations, records.values())
    of_runs = dict.fromkeys(map(of_trainer, runs_of_records))
    timed = {of: file for of in of_runs for file in plan["jobs"][of]["files"].get("tuning", ())}
    tunings = {of: read_tuning(folder / file) for of, file in timed.items()}
    check_tunings(tunings, records.values())
    curves = curves_table(records)
    results = made(folder, plan, records, curves, certificates, evaluations.values(), tunings.values())
    content: dict[str, pd.DataFrame | str] = {
        "runs.parquet": results.runs,
        "curves.parquet": curves,
        "numbers.csv": results.numbers.to_csv(index=False),
        "parity.csv": results.parity.to_csv(index=False),
        "summary.txt": terminal_text(results),
    }
    sources = {
        **{plan["records"][record["run"]["id"]]: record["sha256"] for record in records.values()},
        **{plan["certificates"]["/".join(group)]["file"]: one["sha256"] for group, one in certificates.items()},
        **{plan["evaluations"][of]["file"]: evaluation["sha256"] for of, evaluation in evaluations.items()},
        **{timed[of]: tuning["sha256"] for of, tuning in tunings.items()},
    }
    return content, sources


def made(
    folder: Path,
    plan: Mapping,
    records: dict[str, dict],
    curves: pd.DataFrame,
    certificates: Certificates,
    evaluations: Collection[Mapping] = (),
    tunings: Iterable[Mapping] = (),
) -> Results:
    """Make the tables of records, by path, that fit each other and their certificates. curves: their table."""
    config, of_records = plan["config"], records.values()
    runs = runs_table(records, plan["order"], evaluations, config["prices"])
    wrong = wrong_pairs(records, certificates, evaluations)
    trainers = list(trainer_pairs(runs, certificates, wrong, config["experiments"]))
    pairs = [*filter(is_compared, trainers), *command_pairs(runs), *variant_pairs(runs, of_records)]
    published = published_rows(runs, curves, of_records, read_references())
    others = [*agreement_rows(records), *tuning_rows(tunings), *published]
    numbers = numbers_table(runs, pairs, others, currency_of(config))
    return Results(folder, plan, runs, numbers, parity_table(trainers), certificates)


def write_tables(
    content: Mapping[str, pd.DataFrame | str], sources: Mapping[str, str], plan: Mapping, folder: Path
) -> None:
    """Write the tables, and a manifest with the SHA-256 of their source files and of the tables themselves."""
    for outdated in folder.glob("made_*"):  # of another campaign, whose tables these replace
        outdated.unlink()
    for name, table in content.items():
        with written_whole(folder / name) as part:
            if isinstance(table, str):
                part.write_text(table, encoding="utf-8")
            else:
                table.to_parquet(part, index=False)
    digests = {name: sha256_of(folder / name) for name in content}
    manifest = {"order": plan["order"], "made_of": dict(sources), "tables": digests}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
