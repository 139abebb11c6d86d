"""Train one run and write its record. Everything it does not show goes to the log."""

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from trainmark import devices
from trainmark.console import RunDisplay, place_in_plan, redirect_output
from trainmark.errors import TrainmarkError
from trainmark.frameworks import known_frameworks
from trainmark.ledger import Ledger
from trainmark.matrix import Run
from trainmark.recipes import RECIPES, merged_input
from trainmark.records import write_record

START = time.monotonic()


def parse_arguments() -> argparse.Namespace:
    """The command line of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", required=True, help="name of the experiment that the run belongs to")
    parser.add_argument("--recipe", required=True, choices=RECIPES, help="what is trained")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--dataset-folder", required=True, type=Path, help="the prepared dataset")
    parser.add_argument("--mean", required=True, type=Path, help="mean.npy of the dataset")
    parser.add_argument("--framework", required=True, choices=known_frameworks(), help="the library that trains")
    parser.add_argument("--device", required=True, choices=devices.DEVICES)
    parser.add_argument("--epochs", required=True, type=int, help="passes over the training set")
    parser.add_argument("--repeat", required=True, type=int, help="number of the repeat, from 1")
    parser.add_argument("--seed", type=int, default=1, help="the experiment's seed")
    parser.add_argument("--batch-size", default="recipe", help="samples a step: recipe, full or a number")
    parser.add_argument("--input", type=json.loads, default={}, help="JSON: input transform over the recipe's")
    parser.add_argument("--step-losses", type=int, default=100, help="losses of how many first steps to keep")
    parser.add_argument("--threads", type=int, default=1, help="CPUs and threads to train with")
    parser.add_argument("--plan", type=Path, help="JSON list of all runs, to say which of how many this one is")
    parser.add_argument("--log", type=Path, help="file for everything that the framework prints")
    parser.add_argument("--out", required=True, type=Path, help="the record to write")
    return parser.parse_args()


def train(arguments: argparse.Namespace, run: Run, display: RunDisplay) -> dict:
    """Take the device, train, and return the record."""
    ledger = Ledger(START)
    devices.limit_threads(arguments.threads)
    recipe = RECIPES[run.recipe]
    sizes = {"recipe": recipe.batch_size, "full": None}
    batch_size = sizes[arguments.batch_size] if arguments.batch_size in sizes else int(arguments.batch_size)
    ledger.add("start", time.monotonic() - START)
    waiting = time.monotonic()
    with devices.device_slot(run.device):
        ledger.add("device_wait", time.monotonic() - waiting)
        display.start()
        with ledger.phase("import"):  # numpy reads its number of threads when it is imported: not before here
            from trainmark.training import Settings, run_training
        settings = Settings(arguments.seed, batch_size, merged_input(recipe, arguments.input), arguments.step_losses)
        return run_training(
            run,
            recipe,
            settings,
            arguments.dataset_folder,
            arguments.mean,
            arguments.threads,
            ledger,
            display.epoch_done,
        )


def main() -> None:
    """Train, show, write; exit status 1 and one sentence on the terminal where it fails."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    run = Run(**{name: getattr(arguments, name) for name in Run.__dataclass_fields__})
    display = RunDisplay(run, place_in_plan(run, arguments.plan), terminal)
    try:
        record = train(arguments, run, display)
        write_record(record, arguments.out)
    except Exception as error:
        traceback.print_exc()
        message = str(error) if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {error}"
        display.fail(message, arguments.log)
        sys.exit(1)
    display.finish(record)


if __name__ == "__main__":
    main()
