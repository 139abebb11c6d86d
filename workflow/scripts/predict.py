"""Label texts with a trained run.

Input: one review per line. Output: one line per review, "<class><TAB><its probability>". The texts are tokenised and
shortened as in training. An empty line counts as an empty review and also produces a line.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path

from trainmark.console import only_own_output
from trainmark.errors import run_command
from trainmark.machine.gpus import limit_threads
from trainmark.machine.locks import hold_device
from trainmark.prediction.trained_run import find_run, open_texts
from trainmark.trainer import DEVICES


def at_least_one(text: str) -> int:
    """Parse the value of an argument as a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: a whole number above 0")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="record.json of the run, or the folder that contains it")
    file_help = "text file in UTF-8 (default, and -: standard input)"
    parser.add_argument("file", nargs="?", type=Path, default=Path("-"), help=file_help)
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="device to compute on (default: cpu)")
    parser.add_argument(
        "--threads", type=at_least_one, default=2, help="number of CPUs to use, with one thread each (default: 2)"
    )
    dataset_help = "folder of the prepared dataset; needed if it was moved away from the results folder"
    parser.add_argument("--dataset-folder", type=Path, help=dataset_help)
    return parser.parse_intermixed_args()  # options may stand between the run and the file


def main() -> None:
    """Find the run and its texts, wait for CPUs, and label."""
    arguments = parse_arguments()
    where = arguments.run, arguments.dataset_folder
    with ExitStack() as held:
        find_run(*where)  # report missing files now: the wait below can take hours
        lines = held.enter_context(open_texts(arguments.file))
        device_lock = held.enter_context(
            hold_device(arguments.device, arguments.threads, title="predict", waiting_seconds=5)
        )
        limit_threads(device_lock.cpus)
        # Imported here, because numpy reads its number of threads then.
        from trainmark.prediction.texts import Predictor, label_texts

        run = find_run(*where)  # once more: it may have been trained again
        with only_own_output() as out:
            label_texts(Predictor(run, arguments.device, len(device_lock.cpus)), lines, out)


if __name__ == "__main__":
    run_command(main)
