"""Write the curves of all runs as TensorBoard's event files."""

import argparse
from pathlib import Path

import pandas as pd

from trainmark.errors import run_command
from trainmark.report.tensorboard import write_event_files


def main() -> None:
    """Read the tables, and write an event file for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables-folder", required=True, type=Path, help="folder of the tables")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder of the event files")
    arguments = parser.parse_args()
    runs, curves = (pd.read_parquet(arguments.tables_folder / name) for name in ("runs.parquet", "curves.parquet"))
    arguments.out_folder.mkdir(parents=True, exist_ok=True)
    written = write_event_files(runs, curves, arguments.out_folder)
    print(f"{written} event file{'s' if written != 1 else ''} in {arguments.out_folder}")


if __name__ == "__main__":
    run_command(main)
