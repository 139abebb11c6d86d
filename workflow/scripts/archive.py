"""Pack a results folder for a data repository, with config, source and checksums."""

import argparse
from pathlib import Path

from trainmark.config.load import REPOSITORY
from trainmark.errors import run_command
from trainmark.paper.archive import pack
from trainmark.tables.sections import read_results


def main() -> None:
    """Read the results, and write the archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results-folder", type=Path, default=Path("results"), help="default: results")
    parser.add_argument("--out", type=Path, default=Path("paper-archive.zip"), help="output: paper-archive.zip")
    parser.add_argument(
        "--license",
        default="https://creativecommons.org/licenses/by/4.0/",
        help="address of the license of the results (default: CC BY 4.0)",
    )
    arguments = parser.parse_args()
    print(pack(read_results(arguments.results_folder), REPOSITORY, arguments.out, arguments.license))


if __name__ == "__main__":
    run_command(main)
