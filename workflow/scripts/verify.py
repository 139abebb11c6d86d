"""Verify a results folder, also somebody else's: is each file what was written, and do they fit each other?

Prints a line for each thing that is not right, a line for each kind of file, and by which code and config the runs were
trained. Exit status 0 where everything is as it was written, else 1. Needs no config, no network and no Snakemake.
"""

import argparse
import sys
from pathlib import Path

from trainmark.errors import run_command
from trainmark.verification.results import verify_results


def main() -> None:
    """Look at everything; print; exit status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("results"), help="default: results")
    parser.add_argument("--data", action="store_true", help="read the prepared arrays too, which may be large")
    arguments = parser.parse_args()
    found = verify_results(arguments.folder, arguments.data)
    counts = [
        f"{kind}: {count['checked']} checked, {count['wrong'] or 'none'} wrong" for kind, count in found.counts.items()
    ]
    end = f"{len(found.problems) or 'no'} problem{'' if len(found.problems) == 1 else 's'} in {arguments.folder}"
    for line in [*found.problems, *counts, *found.facts, end]:
        # What a stranger wrote into a file may try to steer the terminal.
        print("".join(letter if letter.isprintable() else "?" for letter in line))
    sys.exit(bool(found.problems))


if __name__ == "__main__":
    run_command(main)
