"""Print a catalogue entry for your own data, with sizes and checksums, as YAML for a config."""

import argparse
from pathlib import Path

import yaml

from trainmark.config.load import load_config
from trainmark.datasets.describe import describe
from trainmark.errors import run_command


def main() -> None:
    """Read the data, check the entry like that of a config, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="name for the dataset: lower-case letters, digits and hyphens")
    paths_help = "a folder, which is read in place, or files, which are fetched and checked by checksum"
    parser.add_argument("paths", nargs="+", type=Path, metavar="folder-or-file", help=paths_help)
    arguments = parser.parse_args()
    entry = describe(arguments.name, arguments.paths)
    datasets = {"datasets": {arguments.name: entry}}
    load_config([], datasets | {"prepare": [arguments.name]}, "the entry", fetches=False)
    print(yaml.safe_dump(datasets, sort_keys=False, default_flow_style=None, width=110), end="")


if __name__ == "__main__":
    run_command(main)
