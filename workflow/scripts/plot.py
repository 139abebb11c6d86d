"""Draw one figure of one experiment, recipe and dataset, as PDF, SVG and PNG."""

import argparse
from pathlib import Path

import pandas as pd

from trainmark.errors import run_command
from trainmark.plan.figures import known_figures
from trainmark.report.figures import save_figure
from trainmark.tables.comparisons import parity_note, read_comparisons
from trainmark.tables.mixtures import call_mixtures, disturbances
from trainmark.tables.tables import of_group


def main() -> None:
    """Read the tables, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, choices=known_figures(), help="which figure")
    parser.add_argument("--runs", required=True, type=Path, help="runs.parquet")
    parser.add_argument("--curves", required=True, type=Path, help="curves.parquet")
    parser.add_argument("--comparisons", required=True, type=Path, help="comparisons.csv")
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--out", required=True, type=Path, nargs="+", help="files to write, the format by their ending")
    arguments = parser.parse_args()
    group = [arguments.experiment, arguments.recipe, arguments.dataset]
    runs = of_group(pd.read_parquet(arguments.runs), group)
    lines = [
        parity_note(of_group(read_comparisons(arguments.comparisons), group)),
        *call_mixtures(runs),
        *disturbances(runs),
    ]
    note = "\n".join(filter(None, lines))
    save_figure(arguments.figure, runs, pd.read_parquet(arguments.curves), note, arguments.out)


if __name__ == "__main__":
    run_command(main)
