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
    results_help = "folder of the records, certificates, cross-evaluations and timed tunings"
    parser.add_argument("--results-folder", required=True, type=Path, help=results_help)
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder for the tables")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    write_tables(*collected(plan, arguments.results_folder), plan, arguments.out_folder)


if __name__ == "__main__":
    run_command(main)
