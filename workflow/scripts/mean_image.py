"""Compute the mean image of a prepared training set, float64 (channels, height, width), and a picture of it."""

import argparse
from pathlib import Path

import numpy as np

from trainmark.console import keep_log
from trainmark.datasets.images.mean import mean_of_dataset, save_picture
from trainmark.errors import run_command
from trainmark.files.whole import written_whole
from trainmark.machine.locks import cpus_beside_runs
from trainmark.plan.own_data import check_dataset
from trainmark.plan.plan_file import add_plan, read_plan


def main() -> None:
    """Read the training images, and write the mean image and its picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--dataset-folder", required=True, type=Path, help="folder of the prepared dataset")
    parser.add_argument(
        "--packed", type=Path, help="packed training images; they are read instead of decoding the files"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="number of decoding threads; it does not affect the result"
    )
    parser.add_argument("--out", required=True, type=Path, help="output: mean.npy")
    parser.add_argument("--picture", required=True, type=Path, help="output: mean.png")
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    name = arguments.dataset_folder.absolute().parents[1].name
    with keep_log(arguments.log), cpus_beside_runs(arguments.workers, f"averaging {name}"):
        mean = mean_of_dataset(arguments.dataset_folder, arguments.packed, arguments.workers)
        check_dataset(read_plan(arguments.plan), name)
        with written_whole(arguments.out) as part, open(part, "wb") as stream:
            np.save(stream, mean, allow_pickle=False)
        save_picture(mean, arguments.picture)


if __name__ == "__main__":
    run_command(main)
