"""Turn the raw files of one dataset into memory-mappable arrays and a manifest."""

import argparse
import json
from pathlib import Path

from trainmark import prepared
from trainmark.config import read_yaml
from trainmark.datasets import read_dataset
from trainmark.errors import run_command
from trainmark.fetching.download import verify


def main() -> None:
    """Verify the raw files once more, read them, check them against the catalogue, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="an entry of the catalogue")
    parser.add_argument("--catalogue", required=True, type=Path, help="config/datasets.yaml")
    parser.add_argument("--sources", required=True, type=Path, help="what download.py wrote")
    parser.add_argument("--raw-folder", required=True, type=Path, help="the raw files")
    parser.add_argument("--out-folder", required=True, type=Path, help="where arrays and manifest go")
    arguments = parser.parse_args()
    entry = read_yaml(arguments.catalogue)[arguments.dataset]
    verify(arguments.raw_folder, entry)
    arrays = read_dataset(arguments.raw_folder, entry)
    prepared.check(arguments.dataset, entry, arrays)
    arguments.out_folder.mkdir(parents=True, exist_ok=True)
    sources = json.loads(arguments.sources.read_text())
    prepared.write(arguments.out_folder, arguments.dataset, entry, arrays, sources)


if __name__ == "__main__":
    run_command(main)
