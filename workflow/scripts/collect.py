"""Collect the records of all planned runs into tables."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.plan.plan_file import add_plan, read_plan
from trainmark.report.collected import collected, write_tables


def main() -> None:
    """Check each record, check that the records fit each other, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder for the tables")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    write_tables(*collected(plan, arguments.plan.parent), plan, arguments.out_folder)


if __name__ == "__main__":
    run_command(main)
