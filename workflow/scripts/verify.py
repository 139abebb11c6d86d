"""Verify a results folder, also somebody else's: no file was changed after it was written, and the files fit together.

Prints a line for each problem, a line for each kind of file, and the code and config with which the runs were trained.
The exit status is 0 if there is no problem, and 1 otherwise. Needs no config, no network and no Snakemake.
"""

import argparse
import os
import sys
from pathlib import Path

from trainmark.console import CONTROLS
from trainmark.errors import run_command
from trainmark.machine.variables import unset_settings


def main() -> None:
    """Verify the folder, print the result, and exit with status 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("results"), help="results folder (default: results)"
    )
    parser.add_argument("--data", action="store_true", help="also read the prepared arrays, which may be large")
    arguments = parser.parse_args()
    unset_settings(os.environ)  # before matplotlib is imported, which reads MPLBACKEND
    from trainmark.verification.results import verify_results

    result = verify_results(arguments.folder, arguments.data)
    counts = [
        f"{kind}: {count['checked']} checked, {count['wrong'] or 'none'} wrong" for kind, count in result.counts.items()
    ]
    end = f"{len(result.problems) or 'no'} problem{'' if len(result.problems) == 1 else 's'} in {arguments.folder}"
    for line in [end, *result.problems, *result.facts, *counts]:
        # A results folder from somebody else may contain control characters for the terminal.
        print(CONTROLS.sub("?", line))
    sys.exit(bool(result.problems))


if __name__ == "__main__":
    run_command(main)
