"""Write the report: one HTML file that works offline, and its first screen as JSON."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.files.whole import write_text
from trainmark.plan.plan_file import add_plan
from trainmark.report.page import render
from trainmark.tables.sections import read_results


def main() -> None:
    """Read the results and write page and summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--out", required=True, type=Path, help="output: index.html")
    parser.add_argument("--summary", required=True, type=Path, help="output: summary.json")
    arguments = parser.parse_args()
    page, summary = render(read_results(arguments.plan.parent))
    write_text(arguments.out, page)
    write_text(arguments.summary, summary)


if __name__ == "__main__":
    run_command(main)
