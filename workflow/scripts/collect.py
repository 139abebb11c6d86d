"""Collect the records of all planned runs into tables."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.parity.certificate import read_certificates
from trainmark.plan.plan_file import read_plan
from trainmark.records.evaluation import read_evaluation
from trainmark.report.terminal import terminal_text
from trainmark.tables import comparisons, tables
from trainmark.tables.run_checks import wrong_pairs


def main() -> None:
    """Read every record against its schema; write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="JSON with the ids of the runs, and their order")
    parser.add_argument("--runs-folder", required=True, type=Path, help="where the records lie")
    parser.add_argument("--out-folder", required=True, type=Path, help="where the tables go")
    parser.add_argument("--evaluations", type=Path, nargs="*", default=[], help="the cross-evaluations of the runs")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="where the parity certificates lie")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    records = tables.read_records(arguments.runs_folder, plan["runs"])
    runs = tables.runs_table(records, plan["order"])
    summary = tables.summary_table(runs)
    certificates = read_certificates(arguments.certificates_folder, comparisons.groups_to_certify(runs))
    evaluations = [read_evaluation(path) for path in arguments.evaluations]
    compared = comparisons.comparisons_table(runs, certificates, wrong_pairs(records, certificates, evaluations))
    agreement = comparisons.agreement_table(records)
    folder = arguments.out_folder
    folder.mkdir(parents=True, exist_ok=True)
    runs.to_parquet(folder / "runs.parquet", index=False)
    tables.curves_table(records).to_parquet(folder / "curves.parquet", index=False)
    (folder / "summary.csv").write_text(tables.csv_text(summary))
    (folder / "comparisons.csv").write_text(comparisons.comparisons_csv(compared))
    agreement.to_csv(folder / "agreement.csv", index=False)
    (folder / "summary.txt").write_text(terminal_text(runs, summary, compared, agreement, certificates))


if __name__ == "__main__":
    run_command(main)
