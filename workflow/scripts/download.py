"""Fetch the files of one dataset, check their checksums, and write the source of each file."""

import argparse
import json
import os
from pathlib import Path

from trainmark.console import keep_log
from trainmark.datasets.fetching.download import fetch_dataset
from trainmark.errors import run_command
from trainmark.files.whole import write_text


def main() -> None:
    """Fetch and check the files. The list of sources is written last, once all files are correct."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--entry", required=True, type=json.loads, help="catalogue entry of the dataset as JSON")
    mirror_help = "folder or address to try first (default: the environment variable TRAINMARK_MIRROR)"
    parser.add_argument("--mirror", default=os.environ.get("TRAINMARK_MIRROR"), help=mirror_help)
    offline_help = "open no network connection (default if the environment variable TRAINMARK_OFFLINE is set and not 0)"
    offline = os.environ.get("TRAINMARK_OFFLINE", "") not in ("", "0")
    parser.add_argument("--offline", action="store_true", default=offline, help=offline_help)
    parser.add_argument("--raw-folder", required=True, type=Path, help="output: folder for the files")
    parser.add_argument("--out", required=True, type=Path, help="output: JSON list of the files and their sources")
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    with keep_log(arguments.log):
        sources = fetch_dataset(
            arguments.dataset, arguments.entry, arguments.mirror, arguments.raw_folder, arguments.offline
        )
    write_text(arguments.out, json.dumps(sources, indent=2) + "\n")


if __name__ == "__main__":
    run_command(main)
