"""Convert the raw files of one dataset into memory-mapped arrays or lists of images, with a manifest."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from trainmark.console import keep_log, say_when_long
from trainmark.datasets.fetching.download import verify
from trainmark.datasets.prepare import prepare, read_dataset
from trainmark.datasets.samples import Folders
from trainmark.errors import run_command
from trainmark.machine.locks import cpus_beside_runs
from trainmark.plan.own_data import check_dataset
from trainmark.plan.plan_file import add_plan, read_plan
from trainmark.plan.products import prepared_in, raw_folder


def main() -> None:
    """Verify the raw files again, read them, check them against the catalogue entry, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument(
        "--sources", required=True, type=Path, help="JSON list of the files and their sources, from download.py"
    )
    parser.add_argument("--workers", type=int, default=1, help="number of threads that decode images")
    parser.add_argument(
        "--out-folder", required=True, type=Path, help="output: folder for arrays or lists, and the manifest"
    )
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    title = f"preparing {arguments.dataset}"
    with keep_log(arguments.log), cpus_beside_runs(arguments.workers, title):
        plan, results = read_plan(arguments.plan), arguments.plan.parent
        planned = plan["datasets"][arguments.dataset]
        entry, of = planned["entry"], planned["of"]
        raw = results / raw_folder(arguments.dataset)  # all keys share raw files and unpacked archives
        folders = Folders(raw, raw.with_name("unpacked"))
        if of:
            folders = replace(folders, base=results / prepared_in(of))
        with say_when_long(f"{title}: checking its files", shows_bar=True):
            verify(folders.raw, entry)
        with say_when_long(f"{title}: reading"):
            dataset = read_dataset(folders, entry)
        sources = json.loads(arguments.sources.read_text())
        prepare(arguments.out_folder, arguments.dataset, entry, dataset, sources, arguments.workers)
        check_dataset(plan, arguments.dataset)  # at the end, so that it knows of a change meanwhile


if __name__ == "__main__":
    run_command(main)
