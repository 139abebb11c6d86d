"""Write the report: one HTML file that works offline."""

import argparse
import json
from pathlib import Path

import pandas as pd

from trainmark.errors import run_command
from trainmark.parity.certificate import read_certificates
from trainmark.report.page import render
from trainmark.tables.comparisons import groups_to_certify, read_comparisons


def main() -> None:
    """Read tables, figures and datasets; write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=Path, help="JSON with the checked config")
    parser.add_argument("--runs", required=True, type=Path, help="runs.parquet")
    parser.add_argument("--comparisons", required=True, type=Path, help="comparisons.csv")
    parser.add_argument("--agreement", required=True, type=Path, help="agreement.csv")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="where the parity certificates lie")
    parser.add_argument("--figures-folder", required=True, type=Path)
    parser.add_argument("--datasets-folder", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="index.html")
    arguments = parser.parse_args()
    runs = pd.read_parquet(arguments.runs)
    page = render(
        runs,
        read_comparisons(arguments.comparisons),
        pd.read_csv(arguments.agreement),
        read_certificates(arguments.certificates_folder, groups_to_certify(runs)),
        json.loads(arguments.plan.read_text())["config"],
        arguments.figures_folder,
        arguments.datasets_folder,
    )
    arguments.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
