"""Train one run, or go on with it, and write its record. Everything it does not show goes to the log."""

import argparse
import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trainmark import devices
from trainmark.ancestors import ancestors
from trainmark.console import RunDisplay, place_in_order, redirect_output
from trainmark.errors import TrainmarkError
from trainmark.frameworks import known_frameworks
from trainmark.job_code import code_record, training_code
from trainmark.ledger import Ledger, process_start
from trainmark.recipe import merged_input
from trainmark.recipes import RECIPES
from trainmark.records import read_record, write_record
from trainmark.run import Run
from trainmark.slots import device_slot, run_lock

if TYPE_CHECKING:
    from trainmark.account import Account

START = process_start()
ANCESTORS = ancestors()

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals by which a person, or a scheduler that needs the place for another job, stops a run."""

CHECKPOINT_SECONDS_VARIABLE = "TRAINMARK_CHECKPOINT_SECONDS"
"""Environment variable with the least time between two checkpoints; --checkpoint-seconds takes its place."""

_ending = threading.Lock()


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
    parser.add_argument("--memory-limit-mib", type=float, help="end as out of memory where the process holds more")
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
    return parser.parse_args()


def train(arguments: argparse.Namespace, run: Run, display: RunDisplay) -> NoReturn:
    """Take the device, train, write the record and end the process."""
    ledger = Ledger(START)
    ledger.add("start", time.monotonic() - START)
    with ExitStack() as held:
        with ledger.phase("device_wait"):
            held.enter_context(run_lock(arguments.out))
            slot = held.enter_context(device_slot(run.device, arguments.threads))
        display.start()
        devices.limit_threads(slot.cpus)
        with ledger.phase("import"):  # numpy reads its number of threads when it is imported: not before here
            from trainmark.account import Job, Settings
            from trainmark.memory import MemoryWatch
            from trainmark.training import Training
        recipe = RECIPES[run.recipe]
        settings = Settings(
            arguments.seed,
            _batch_size(arguments.batch_size, recipe.batch_size),
            merged_input(recipe, arguments.input),
            arguments.step_losses,
            arguments.memory_limit_mib,
        )
        job = Job(
            arguments.dataset_folder,
            arguments.mean,
            slot,
            code_record(training_code(recipe, run.framework)),
            _checkpoint_folder(arguments.out),
            arguments.checkpoint_seconds,
            place_in_order(run, arguments.plan),
        )
        training = Training(run, recipe, settings, job, ledger)
        if _take_kept_record(arguments.out, training.account):
            display.done_elsewhere()
            _exit(0)

        def on_excess(resident_mib: float) -> None:
            try:
                _end(arguments, display, training.over_limit(resident_mib))
            except Exception as error:  # in the watch's thread, where nobody else would see it
                _fail(arguments, display, error)

        with MemoryWatch(arguments.memory_limit_mib, on_excess):
            _end(arguments, display, training.train(display.epoch_done, display.went_on))


def _batch_size(asked: str, of_recipe: int | None) -> int | None:
    sizes = {"recipe": of_recipe, "full": None}
    return sizes[asked] if asked in sizes else int(asked)


def _checkpoint_folder(record: Path) -> Path:
    return record.with_suffix(".checkpoint")


def _kept_record(record: Path) -> Path:
    """A copy of the record, for the next workflow: where this one is gone, Snakemake takes no output for finished."""
    return _checkpoint_folder(record) / "record.json"


def _take_kept_record(record: Path, account: "Account") -> bool:
    """Whether a training that outlived its workflow had finished this run: its record is then this one's."""
    kept = _kept_record(record)
    if not kept.exists():
        return False
    found = read_record(kept)
    if not account.is_of_this_run(found):
        kept.unlink()
        return False
    write_record(found, record)
    kept.unlink()
    return True


def _end(arguments: argparse.Namespace, display: RunDisplay, record: dict) -> NoReturn:
    """Write the record, show it and end the process at once, from whichever thread comes first."""
    from trainmark.checkpoints import remove_checkpoints  # it imports numpy: see train

    with _ending:
        write_record(record, arguments.out)
        remove_checkpoints(_checkpoint_folder(arguments.out))
        if ancestors() != ANCESTORS:
            write_record(record, _kept_record(arguments.out))
        display.finish(record)
        _exit(0)


def _fail(arguments: argparse.Namespace, display: RunDisplay, error: Exception) -> NoReturn:
    """Exit status 1, one sentence on the terminal, the traceback in the log."""
    traceback.print_exception(error)
    message = str(error) if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {error}"
    display.fail(message, arguments.log)
    _exit(1)


def _exit(status: int) -> NoReturn:
    """End the process without the frameworks' own tidying up: it takes part of a second that no record would hold."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def stop_on_signals(display: RunDisplay) -> None:
    """On a signal that stops a run, say so and end at once: what is lost is what came after the last checkpoint."""

    def stop(number: int, _: object) -> None:
        display.stopped(signal.Signals(number).name)
        os._exit(128 + number)

    for name in STOPPING:
        signal.signal(getattr(signal, name), stop)


def main() -> None:
    """Train, show, write."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    run = Run(**{name: getattr(arguments, name) for name in Run.__dataclass_fields__})
    display = RunDisplay(run, place_in_order(run, arguments.plan), terminal)
    stop_on_signals(display)
    try:
        train(arguments, run, display)
    except Exception as error:
        _fail(arguments, display, error)


if __name__ == "__main__":
    main()
