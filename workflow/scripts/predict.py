"""Label texts or photographs with a trained run.

A run on texts: one review per line of the file. Output: one line per review, "<class><TAB><its probability>". The texts
are tokenised and shortened as in training. An empty line counts as an empty review and also produces a line.

A run on photographs: image files, and folders, which stand for the image files in them and in the folders below them.
Output: one line per photograph, "<path><TAB><class><TAB><its probability>". The photographs are decoded and cropped as
the test images of the training. For each that can't be read, a line on standard error says why. The others are
labelled, and the exit status is 1.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from trainmark.console import only_own_output
from trainmark.errors import run_command
from trainmark.machine.gpus import limit_threads
from trainmark.machine.locks import hold_device
from trainmark.prediction.trained_run import TrainedRun, check_photographs, find_run, open_texts
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
    file_help = "text file in UTF-8 (default, and -: standard input), or image files and folders of image files"
    parser.add_argument("file", nargs="*", type=Path, help=file_help)
    top_help = "number of classes to print, the most probable first, each with its probability (default: 1)"
    parser.add_argument("--top", type=at_least_one, default=1, help=top_help)
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="device to compute on (default: cpu)")
    parser.add_argument(
        "--threads", type=at_least_one, default=2, help="number of CPUs to use, with one thread each (default: 2)"
    )
    dataset_help = "folder of the prepared dataset; needed if it was moved away from the results folder"
    parser.add_argument("--dataset-folder", type=Path, help=dataset_help)
    return parser.parse_intermixed_args()  # options may stand between the run and the files


def label(run: TrainedRun, arguments: argparse.Namespace, lines: BinaryIO | None, threads: int) -> int:
    """Print the label of each text or photograph; return how many photographs can't be read.

    lines: the texts; None for photographs. numpy is imported here, because it reads its number of threads then.
    """
    from trainmark.prediction.predict import Predictor

    if lines is None:
        from trainmark.prediction.photographs import label_photographs, read_photograph_model

        model = read_photograph_model(run)
    else:
        from trainmark.prediction.texts import label_texts, read_text_model

        model = read_text_model(run)
    with only_own_output() as (out, errors):
        predictor = Predictor(model, arguments.device, threads, arguments.top)
        if lines is None:
            return label_photographs(predictor, arguments.file, threads, out, errors)
        label_texts(predictor, lines, out)
    return 0


def main() -> None:
    """Find the run and what it labels, wait for CPUs, and label."""
    arguments = parse_arguments()
    where = arguments.run, arguments.dataset_folder
    with ExitStack() as held:
        run = find_run(*where)  # report missing files now: the wait below can take hours
        lines = held.enter_context(open_texts(arguments.file)) if run.takes_texts else None
        if lines is None:
            check_photographs(arguments.file)
        device_lock = held.enter_context(
            hold_device(arguments.device, arguments.threads, title="predict", waiting_seconds=5)
        )
        limit_threads(device_lock.cpus)
        run = find_run(*where)  # once more: it may have been trained again
        if label(run, arguments, lines, len(device_lock.cpus)):
            sys.exit(1)


if __name__ == "__main__":
    run_command(main)
