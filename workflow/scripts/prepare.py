"""Convert the raw files of one dataset into memory-mapped arrays or lists of images, with a manifest."""

import argparse
import json
from pathlib import Path

from trainmark.console import keep_log, say_when_long
from trainmark.datasets.fetching.download import verify
from trainmark.datasets.prepare import prepare, read_dataset
from trainmark.datasets.samples import Folders
from trainmark.errors import run_command
from trainmark.machine.locks import cpus_beside_runs


def main() -> None:
    """Verify the raw files again, read them, check them against the catalogue entry, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--entry", required=True, type=json.loads, help="catalogue entry of the dataset as JSON")
    parser.add_argument(
        "--sources", required=True, type=Path, help="JSON list of the files and their sources, from download.py"
    )
    parser.add_argument("--raw-folder", required=True, type=Path, help="folder of the raw files")
    parser.add_argument("--unpacked-folder", required=True, type=Path, help="folder for unpacked archives")
    parser.add_argument("--base-folder", type=Path, help="prepared dataset from which the classes are taken")
    parser.add_argument("--workers", type=int, default=1, help="number of threads that decode images")
    parser.add_argument(
        "--out-folder", required=True, type=Path, help="output: folder for arrays or lists, and the manifest"
    )
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    folders = Folders(arguments.raw_folder, arguments.unpacked_folder, arguments.base_folder)
    title = f"preparing {arguments.dataset}"
    with keep_log(arguments.log), cpus_beside_runs(arguments.workers, title):
        with say_when_long(f"{title}: checking its files", shows_bar=True):
            verify(folders.raw, arguments.entry)
        with say_when_long(f"{title}: reading"):
            dataset = read_dataset(folders, arguments.entry)
        sources = json.loads(arguments.sources.read_text())
        prepare(arguments.out_folder, arguments.dataset, arguments.entry, dataset, sources, arguments.workers)


if __name__ == "__main__":
    run_command(main)
