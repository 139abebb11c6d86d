"""Train one run, or go on with it, and write its record. Everything it does not show goes to the log."""

import argparse
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from trainmark import devices
from trainmark.console import RunDisplay, place_in_order, redirect_output
from trainmark.ending import Ending
from trainmark.frameworks import known_frameworks
from trainmark.job_code import code_record, training_code
from trainmark.ledger import Ledger, process_start
from trainmark.recipe import asked_batch_size, merged_input
from trainmark.recipes import RECIPES
from trainmark.run import Run
from trainmark.slots import device_slot, run_lock

CHECKPOINT_SECONDS_VARIABLE = "TRAINMARK_CHECKPOINT_SECONDS"
"""Environment variable with the least time between two checkpoints; --checkpoint-seconds takes its place."""


def parse_arguments() -> argparse.Namespace:
    """The command line of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", required=True, help="name of the experiment that the run belongs to")
    parser.add_argument("--recipe", required=True, choices=RECIPES, help="what is trained")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--dataset-folder", required=True, type=Path, help="the prepared dataset")
    parser.add_argument("--mean", type=Path, help="mean.npy of the dataset; needed for images, which alone have one")
    parser.add_argument("--framework", required=True, choices=known_frameworks(), help="the library that trains")
    parser.add_argument("--device", required=True, choices=devices.DEVICES)
    parser.add_argument("--epochs", required=True, type=int, help="passes over the training set")
    parser.add_argument("--repeat", required=True, type=int, help="number of the repeat, from 1")
    parser.add_argument("--seed", type=int, default=1, help="the experiment's seed")
    parser.add_argument("--batch-size", default="recipe", help="samples a step: recipe, full or a number")
    parser.add_argument("--input", type=json.loads, default={}, help="JSON: input transform over the recipe's")
    parser.add_argument("--step-losses", type=int, default=100, help="losses of how many first steps to keep")
    parser.add_argument("--memory-limit-mib", type=float, help="end as out of memory where the process holds more")
    parser.add_argument(
        "--forget-weights", action="store_true", help="do not keep the trained weights beside the record"
    )
    parser.add_argument("--threads", type=int, default=1, help="CPUs and threads to train with")
    parser.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=os.environ.get(CHECKPOINT_SECONDS_VARIABLE, "5"),
        help=f"least time between two checkpoints (default: {CHECKPOINT_SECONDS_VARIABLE}, or 5)",
    )
    parser.add_argument("--plan", type=Path, help="JSON with the order of all runs, to say which of how many this is")
    parser.add_argument("--log", type=Path, help="file for everything that the framework prints")
    parser.add_argument("--out", required=True, type=Path, help="the record to write; checkpoints lie beside it")
    arguments = parser.parse_args()
    if RECIPES[arguments.recipe].input and not arguments.mean:
        parser.error(f"--mean is needed: the recipe {arguments.recipe} trains on images")
    return arguments


def train(arguments: argparse.Namespace, run: Run, order: dict | None, display: RunDisplay, ending: Ending) -> NoReturn:
    """Take the device, train, and end the process with the record."""
    start = process_start()
    ledger = Ledger(start)
    recipe = RECIPES[run.recipe]
    code = code_record(training_code(recipe, run.framework))  # before any wait: it may be edited meanwhile
    ledger.add("start", time.monotonic() - start)
    with ExitStack() as held:
        with ledger.phase("device_wait"), display.waiting():
            held.enter_context(run_lock(arguments.out, ending.checkpoint_folder))
            slot = held.enter_context(device_slot(run.device, arguments.threads))
        display.start()
        devices.limit_threads(slot.cpus)
        with ledger.phase("import"):  # numpy reads its number of threads when it is imported: not before here
            from trainmark.account import Job, Settings
            from trainmark.kept_weights import FILE_NAME
            from trainmark.memory import MemoryWatch
            from trainmark.training import Training
        settings = Settings(
            arguments.seed,
            asked_batch_size(recipe, arguments.batch_size),
            merged_input(recipe, arguments.input),
            arguments.step_losses,
            arguments.memory_limit_mib,
        )
        job = Job(
            arguments.dataset_folder,
            arguments.mean,
            slot,
            code,
            ending.checkpoint_folder,
            arguments.checkpoint_seconds,
            order,
            arguments.out.with_name(FILE_NAME),
            not arguments.forget_weights,
        )
        training = Training(run, recipe, settings, job, ledger)
        if ending.take_kept_record(training.account.is_of_this_run):
            ending.done_elsewhere()

        def on_excess(resident_mib: float) -> None:
            try:
                ending.finish(training.over_limit(resident_mib))
            except Exception as error:  # in the watch's thread, where nobody else would see it
                ending.fail(error)

        with MemoryWatch(arguments.memory_limit_mib, on_excess):
            ending.finish(training.train(display.epoch_done, display.went_on))


def main() -> None:
    """Train, show, write."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    run = Run(**{name: getattr(arguments, name) for name in Run.__dataclass_fields__})
    order = place_in_order(run, arguments.plan)
    display = RunDisplay(run, order, terminal)
    ending = Ending(arguments.out, arguments.log, display)
    ending.stop_on_signals()
    try:
        train(arguments, run, order, display, ending)
    except Exception as error:
        ending.fail(error)


if __name__ == "__main__":
    main()
