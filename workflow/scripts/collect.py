"""Collect the records of all planned runs into tables."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.plan.plan_file import read_plan
from trainmark.report.collected import collected, write_tables


def main() -> None:
    """Check every record by itself and beside the others; write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="JSON with the ids of the runs, and their order")
    parser.add_argument("--runs-folder", required=True, type=Path, help="where the records lie")
    parser.add_argument("--out-folder", required=True, type=Path, help="where the tables go")
    parser.add_argument("--evaluations-folder", required=True, type=Path, help="where the cross-evaluations lie")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="where the parity certificates lie")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    made, made_of = collected(plan, arguments.runs_folder, arguments.certificates_folder, arguments.evaluations_folder)
    write_tables(made, made_of, plan, arguments.out_folder)


if __name__ == "__main__":
    run_command(main)
