"""Collect the records of all planned runs into tables."""

import argparse
import json
from pathlib import Path

from trainmark import tables
from trainmark.errors import run_command


def main() -> None:
    """Read every record against its schema; write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="JSON with the ids of the runs")
    parser.add_argument("--runs-folder", required=True, type=Path, help="where the records lie")
    parser.add_argument("--out-folder", required=True, type=Path, help="where the tables go")
    arguments = parser.parse_args()
    records = tables.read_records(arguments.runs_folder, json.loads(arguments.plan.read_text())["runs"])
    runs = tables.runs_table(records)
    summary = tables.summary_table(runs)
    agreement = tables.agreement_table(records)
    folder = arguments.out_folder
    folder.mkdir(parents=True, exist_ok=True)
    runs.to_parquet(folder / "runs.parquet", index=False)
    tables.curves_table(records).to_parquet(folder / "curves.parquet", index=False)
    (folder / "summary.csv").write_text(tables.csv_text(summary))
    agreement.to_csv(folder / "agreement.csv", index=False)
    (folder / "summary.txt").write_text(tables.terminal_text(summary, agreement))


if __name__ == "__main__":
    run_command(main)
