"""Write the packed images of a prepared dataset of image files: uint8 (samples, 256, 256, 3) for each split."""

import argparse
from pathlib import Path

from trainmark.console import keep_log
from trainmark.datasets.catalogue import SPLITS, store_file
from trainmark.datasets.images.lists import prepared_paths
from trainmark.datasets.images.packed import pack
from trainmark.errors import run_command
from trainmark.machine.locks import cpus_beside_runs
from trainmark.plan.own_data import check_dataset
from trainmark.plan.plan_file import add_plan, read_plan


def main() -> None:
    """Decode and resize the images of both splits, and write them as arrays."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--dataset-folder", required=True, type=Path, help="folder of the prepared dataset")
    parser.add_argument("--workers", type=int, default=1, help="number of decoding threads")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder for train.npy and test.npy")
    parser.add_argument("--log", required=True, type=Path, help="file for a copy of standard error")
    arguments = parser.parse_args()
    name = arguments.dataset_folder.absolute().parents[1].name
    arguments.out_folder.mkdir(parents=True, exist_ok=True)
    with keep_log(arguments.log), cpus_beside_runs(arguments.workers, f"packing {name}"):
        for split in SPLITS:
            paths = prepared_paths(arguments.dataset_folder, split)
            title = f"{name}: packing {split} images"
            pack(paths, store_file(arguments.out_folder, split), arguments.workers, title)
        check_dataset(read_plan(arguments.plan), name)


if __name__ == "__main__":
    run_command(main)
