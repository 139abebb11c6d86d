"""Write the paper kit: numbers, tables, figures, methods and references of a campaign for LaTeX."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.paper.kit import make_kit
from trainmark.plan.plan_file import add_plan


def main() -> None:
    """Read tables and summary, and write the kit."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder of the kit")
    arguments = parser.parse_args()
    print(make_kit(arguments.plan.parent, arguments.out_folder))


if __name__ == "__main__":
    run_command(main)
