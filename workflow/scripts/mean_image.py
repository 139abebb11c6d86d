"""Compute the mean image of a prepared training set, float64 (channels, height, width), and a picture of it."""

import argparse
from pathlib import Path

from trainmark.console import keep_log
from trainmark.datasets.images.mean import mean_of_dataset, save_mean, save_picture
from trainmark.errors import run_command
from trainmark.machine.locks import cpus_beside_runs


def main() -> None:
    """Read the training images, and write the mean image and its picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset-folder", required=True, type=Path, help="folder of the prepared dataset")
    parser.add_argument(
        "--packed", type=Path, help="packed training images; they are read instead of decoding the files"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="number of decoding threads; it does not affect the result"
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=Path,
        help="file for the intermediate sum, from which an interrupted call resumes",
    )
    parser.add_argument("--out", required=True, type=Path, help="output: mean.npy")
    parser.add_argument("--picture", required=True, type=Path, help="output: mean.png")
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    title = f"averaging {arguments.dataset_folder.absolute().parent.name}"
    with keep_log(arguments.log), cpus_beside_runs(arguments.workers, title):
        mean = mean_of_dataset(arguments.dataset_folder, arguments.packed, arguments.workers, arguments.checkpoint)
        save_mean(mean, arguments.out)
        save_picture(mean, arguments.picture)
    arguments.checkpoint.unlink(missing_ok=True)


if __name__ == "__main__":
    run_command(main)
