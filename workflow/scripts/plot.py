"""Draw one figure of one experiment, recipe and dataset, as PDF, SVG and PNG."""

import argparse
from pathlib import Path

from trainmark.errors import run_command
from trainmark.plan.figures import known_figures
from trainmark.report.figures.save import save_figure_of


def main() -> None:
    """Read the tables, the certificate and the published results, and draw and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, choices=known_figures(), help="name of the figure")
    parser.add_argument("--tables-folder", required=True, type=Path, help="folder of the tables")
    parser.add_argument("--certificates-folder", required=True, type=Path, help="folder of the certificates")
    parser.add_argument("--references", required=True, type=Path, help="YAML file of published results")
    parser.add_argument("--experiment", required=True, help="name of the experiment")
    parser.add_argument("--recipe", required=True, help="name of the recipe")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    out_help = "output: files; the extension of each decides its format"
    parser.add_argument("--out", required=True, type=Path, nargs="+", help=out_help)
    arguments = parser.parse_args()
    group = [arguments.experiment, arguments.recipe, arguments.dataset]
    sources = arguments.tables_folder, arguments.certificates_folder, arguments.references
    save_figure_of(arguments.figure, group, *sources, arguments.out)


if __name__ == "__main__":
    run_command(main)
