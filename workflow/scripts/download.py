"""Fetch the files of one dataset or command, check their checksums, and write the source of each file."""

import argparse
import json
import os
from pathlib import Path

from trainmark.console import keep_log
from trainmark.datasets.fetching.download import fetch_dataset
from trainmark.errors import run_command
from trainmark.files.whole import write_text
from trainmark.plan.jobs import entry_to_fetch
from trainmark.plan.plan_file import add_plan, read_plan
from trainmark.plan.products import raw_folder


def main() -> None:
    """Fetch and check the files. The list of sources is written last, once all files are correct."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    named = parser.add_mutually_exclusive_group(required=True)
    named.add_argument("--dataset", help="name of the dataset")
    named.add_argument("--command", help="what the command is of: experiment/recipe")
    mirror_help = "folder or address to try first (default: the environment variable TRAINMARK_MIRROR)"
    parser.add_argument("--mirror", default=os.environ.get("TRAINMARK_MIRROR"), help=mirror_help)
    offline_help = "open no network connection (default if the environment variable TRAINMARK_OFFLINE is set and not 0)"
    offline = os.environ.get("TRAINMARK_OFFLINE", "") not in ("", "0")
    parser.add_argument("--offline", action="store_true", default=offline, help=offline_help)
    parser.add_argument("--out", required=True, type=Path, help="output: JSON list of the files and their sources")
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    with keep_log(arguments.log):
        plan = read_plan(arguments.plan)
        if arguments.dataset:
            # All keys of a dataset share its files, which may be large.
            name, folder = arguments.dataset, arguments.plan.parent / raw_folder(arguments.dataset)
            entry = entry_to_fetch(plan["datasets"][name]["entry"])
        else:
            name, folder = arguments.command.split("/")[1], arguments.out.parent / "files"
            entry = plan["commands"][arguments.command]["entry"]
        sources = fetch_dataset(name, entry, arguments.mirror, folder, arguments.offline)
    write_text(arguments.out, json.dumps(sources, indent=2) + "\n")


if __name__ == "__main__":
    run_command(main)
