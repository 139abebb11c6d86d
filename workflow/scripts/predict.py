"""Label texts by a trained run: one line a review in, one line a review out, "<class><TAB><its probability>".

Words, token ids and length are those of the training. An empty line is a review without words, and gets its line too.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path

from trainmark.console import only_own_output
from trainmark.errors import run_command
from trainmark.machine.gpus import DEVICES, limit_threads
from trainmark.machine.locks import hold_device
from trainmark.prediction.text_run import find_run, open_texts


def at_least_one(text: str) -> int:
    """A whole number above 0, of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: a whole number above 0")
    return int(text)


def main() -> None:
    """Read, label, write, in blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run's record.json, or the folder that holds it")
    parser.add_argument("file", nargs="?", type=Path, help="text file in UTF-8; standard input where absent, or -")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="where to compute (default: cpu)")
    parser.add_argument("--threads", type=at_least_one, default=2, help="CPUs and threads to compute with (default: 2)")
    parser.add_argument("--dataset-folder", type=Path, help="the prepared dataset, where the results were taken apart")
    arguments = parser.parse_args()
    with ExitStack() as held:
        find_run(arguments.run, arguments.dataset_folder)  # the wait can take hours: what is missing is said before it
        lines = held.enter_context(open_texts(arguments.file))
        device_lock = held.enter_context(
            hold_device(arguments.device, arguments.threads, title="predict", waiting_seconds=5)
        )
        limit_threads(device_lock.cpus)
        # numpy reads its number of threads when it is imported: not before here
        from trainmark.prediction import predict

        run = predict.read_run(arguments.run, arguments.dataset_folder)  # anew: it may have been trained again
        with only_own_output() as out:
            predict.predict(run, arguments.device, len(device_lock.cpus), lines, out)


if __name__ == "__main__":
    run_command(main)
