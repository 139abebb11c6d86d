"""The tables of a results folder, made of its records and certificates: what collect_records writes."""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from trainmark.files.checksums import sha256_of
from trainmark.parity.certificate import read_certificates
from trainmark.plan.matrix import certified_groups
from trainmark.plan.products import MANIFEST, evaluation_files
from trainmark.plan.run import CERTIFICATE_FILE
from trainmark.records.evaluation import read_evaluation
from trainmark.report.terminal import terminal_text
from trainmark.tables import comparisons, tables
from trainmark.tables.consistency import check_certificates, check_evaluations, check_records
from trainmark.tables.run_checks import wrong_pairs

Table = pd.DataFrame | str
"""What a file holds: rows of a .parquet, or the text of any other."""


def collected(
    plan: Mapping, runs_folder: Path, certificates_folder: Path, evaluations_folder: Path
) -> tuple[dict[str, Table], dict[str, str]]:
    """(tables by the names of their files, digests of the files that they are made of, by file).

    Raises RecordError or CertificateError where one can't be read, or does not fit the others.
    """
    records = tables.read_records(runs_folder, plan["runs"])
    check_records(records)
    certified = certified_groups(SimpleNamespace(**record["run"]) for record in records.values())
    certificates = read_certificates(certificates_folder, certified)
    check_certificates(certificates, records.values())
    evaluations = {
        file: read_evaluation(evaluations_folder / file) for file in evaluation_files(plan["config"], certified)
    }
    check_evaluations(evaluations, records.values())
    runs = tables.runs_table(records, plan["order"], evaluations.values())
    summary = tables.summary_table(runs)
    wrong = wrong_pairs(records, certificates, evaluations.values())
    compared = comparisons.comparisons_table(runs, certificates, wrong)
    agreement = comparisons.agreement_table(records)
    made: dict[str, Table] = {
        "runs.parquet": runs,
        "curves.parquet": tables.curves_table(records),
        "summary.csv": tables.csv_text(summary),
        "comparisons.csv": comparisons.comparisons_csv(compared),
        "agreement.csv": agreement.to_csv(index=False),
        "summary.txt": terminal_text(runs, summary, compared, agreement, certificates),
    }
    made_of = {
        **{f"runs/{record['run']['id']}/record.json": record["sha256"] for record in records.values()},
        **{f"certificates/{CERTIFICATE_FILE.format(**found)}": found["sha256"] for found in certificates.values()},
        **{f"evaluations/{file}": found["sha256"] for file, found in evaluations.items()},
    }
    return made, made_of


def write_tables(made: Mapping[str, Table], made_of: Mapping[str, str], plan: Mapping, folder: Path) -> None:
    """Write the tables, and beside them a manifest: of which files they are made, and their own SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in made.items():
        if isinstance(table, str):
            (folder / name).write_text(table)
        else:
            table.to_parquet(folder / name, index=False)
    digests = {name: sha256_of(folder / name) for name in made}
    manifest = {"order": plan["order"], "made_of": dict(made_of), "tables": digests}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def differing(table: Table, file: Path) -> bool:
    """Whether a file holds another table than this one."""
    if isinstance(table, str):
        return file.read_bytes() != table.encode()
    stream = BytesIO()
    table.to_parquet(stream, index=False)
    return not pd.read_parquet(file).equals(pd.read_parquet(stream))
