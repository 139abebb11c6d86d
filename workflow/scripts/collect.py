"""Collect the records of all planned runs into tables."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.plan.plan_file import read_plan
from trainmark.report.collected import collected, write_tables


def main() -> None:
    """Check each record, check that the records fit each other, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json of the workflow")
    parser.add_argument("--runs-folder", required=True, type=Path, help="folder of the records")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder for the tables")
    parser.add_argument("--evaluations-folder", required=True, type=Path, help="folder of the cross-evaluations")
    parser.add_argument("--tunings-folder", required=True, type=Path, help="folder of the timed tunings")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="folder of the parity certificates")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    folders = (arguments.certificates_folder, arguments.evaluations_folder, arguments.tunings_folder)
    tables, made_of = collected(plan, arguments.runs_folder, *folders)
    write_tables(tables, made_of, plan, arguments.out_folder)


if __name__ == "__main__":
    run_command(main)
