"""Draw the figures of one experiment, recipe and dataset, each as PDF, SVG and PNG."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.report.figures.data import read_data
from trainmark.report.figures.save import save_figures


def main() -> None:
    """Read the tables, the certificate and the published results, and draw and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables-folder", required=True, type=Path, help="folder of the tables")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="folder of the certificates")
    parser.add_argument("--references", required=True, type=Path, help="YAML file of published results")
    parser.add_argument("--experiment", required=True, help="name of the experiment")
    parser.add_argument("--recipe", required=True, help="name of the recipe")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder of the figures")
    arguments = parser.parse_args()
    group = [arguments.experiment, arguments.recipe, arguments.dataset]
    sources = arguments.tables_folder, arguments.certificates_folder, arguments.references
    save_figures(read_data(group, *sources), arguments.out_folder)


if __name__ == "__main__":
    run_command(main)
