"""Write the paper kit: numbers, tables, figures, methods and references of a campaign for LaTeX."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.paper.kit import make_kit
from trainmark.plan.plan_file import read_plan


def main() -> None:
    """Read tables and summary, and write the kit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="plan.json of the workflow")
    parser.add_argument("--results-folder", required=True, type=Path, help="folder of the tables and certificates")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder of the kit")
    arguments = parser.parse_args()
    print(make_kit(arguments.results_folder, read_plan(arguments.plan), arguments.out_folder))


if __name__ == "__main__":
    run_command(main)
