"""Merge results folders of several machines or users into one campaign, which keeps them apart.

The experiment E of a folder with the label L becomes the experiment E-L. Nothing is changed in the folders.
"""

import argparse
import os
from pathlib import Path

from trainmark.errors import run_command
from trainmark.machine.variables import unset_settings


def main() -> None:
    """Read the folders, and write the merged one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=_labelled, metavar="LABEL=FOLDER", help="folder, or its archive")
    parser.add_argument("--out", required=True, type=Path, help="output: the merged results folder")
    arguments = parser.parse_args()
    unset_settings(os.environ)  # before matplotlib is imported, which reads MPLBACKEND
    from trainmark.campaigns.merging import merge

    print(merge(arguments.folders, arguments.out))


def _labelled(text: str) -> tuple[str, Path]:
    label, _, folder = text.partition("=")
    if not (label and folder):
        raise argparse.ArgumentTypeError(f"found {text}; allowed: LABEL=FOLDER, such as laptop=results")
    return label, Path(folder)


if __name__ == "__main__":
    run_command(main)
