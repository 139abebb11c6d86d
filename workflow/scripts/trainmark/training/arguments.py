"""The arguments that the scripts of one trainer share: recipe, trainer, settings, ..."""

import argparse
import errno
import json
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from trainmark.console import redirect_output
from trainmark.errors import ConfigError, DeviceError, why
from trainmark.frameworks.registry import known_frameworks
from trainmark.machine.ranks import Ranks, join_ranks, no_launcher
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.trainer import STOCK, TUNED, Trainer


def parse_settings(text: str) -> dict:
    """Parse the value of --settings. Raises argparse.ArgumentTypeError if it is not a JSON object."""
    with suppress(ValueError):
        if isinstance(settings := json.loads(text), dict):
            return settings
    raise argparse.ArgumentTypeError(f'found {text}; allowed: a JSON object such as {{"seed": 1, "batch_size": 32}}')


def parse_trainer(text: str) -> Trainer:
    """Parse the value of --trainer. Raises argparse.ArgumentTypeError if it is none."""
    try:
        return Trainer.parse(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that identify a run, besides its recipe and its trainer."""
    parser.add_argument("--experiment", required=True, help="name of the experiment of the run")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--epochs", required=True, type=int, help="number of passes over the training set")
    parser.add_argument("--repeat", required=True, type=int, help="number of the repeat, from 1")


def run_of(arguments: argparse.Namespace) -> Run:
    """Return the run of a command line."""
    return Run(**{field.name: getattr(arguments, field.name) for field in fields(Run)})


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that run_command.py shares, too: trainer, settings, threads and log."""
    parser.add_argument(
        "--trainer",
        required=True,
        type=parse_trainer,
        help=f"framework, device and loop, such as {Trainer('chainer', 'gpu', TUNED)}",
    )
    parser.add_argument(
        "--settings", required=True, type=parse_settings, help="settings of the experiment as JSON (config/schema.yaml)"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="number of CPUs of each worker, with one thread each (default: 1)"
    )
    parser.add_argument(
        "--log", type=Path, help="file for the output of the framework or the command (default: the terminal)"
    )


def add_launcher(parser: argparse.ArgumentParser) -> None:
    """Add the argument that starts several workers."""
    parser.add_argument(
        "--launcher",
        default="",
        help="command that starts the workers, such as 'srun --mpi=pmix' (default: none, it has started this process)",
    )


def _launch(launcher: str, workers: int) -> None:
    """Replace this process by a launcher that runs its command line as so many workers, if there are several.

    Raises DeviceError if there is no such program.
    """
    if not launcher or workers == 1:
        return
    command = [*shlex.split(launcher), "-n", str(workers), "python", *sys.argv, "--launcher="]
    # No time limit: this process becomes the launcher, for as long as the job may take.
    try:
        os.execvp(command[0], command)  # noqa: S606 (each word is an argument of its own)
    except OSError as error:
        missing = no_launcher(command[0], workers) if error.errno == errno.ENOENT else None
        raise DeviceError(missing or f"the launcher {command[0]} can't be started {why(error)}") from error


def start_ranks(arguments: argparse.Namespace) -> Ranks:
    """Start the workers of a command line or, in a process that was started as one, join the others.

    All but the first get logs of their own, beside that of the run.

    Raises DeviceError if there is no launcher or no MPI, or if it has started another number of processes.
    """
    workers = arguments.trainer.workers
    _launch(arguments.launcher, workers)
    ranks = join_ranks(workers)
    if ranks.rank and arguments.log:
        ranks.run_log = redirect_output(arguments.log.with_suffix(f".rank{ranks.rank}.log"))
    return ranks


def parse_with_trainer(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Add the shared arguments to a script's parser, parse the command line and check it."""
    parser.add_argument("--recipe", required=True, choices=RECIPES, help="name of the recipe to train")
    parser.add_argument("--dataset-folder", required=True, type=Path, help="folder of the prepared dataset")
    parser.add_argument("--mean", type=Path, help="mean.npy of the dataset; required for images, not used for texts")
    parser.add_argument(
        "--packed", type=Path, help="folder of the packed images; needed where loader.store asks for them"
    )
    add_job_arguments(parser)
    arguments = parser.parse_args()
    if RECIPES[arguments.recipe].input and not arguments.mean:
        parser.error(f"--mean is needed: the recipe {arguments.recipe} trains on images")
    if (trainer := arguments.trainer).framework not in known_frameworks():
        parser.error(f"--trainer: found the framework {trainer.framework}; allowed: {', '.join(known_frameworks())}")
    if trainer.loop not in (loops := known_frameworks()[trainer.framework].loops):
        parser.error(f"--trainer {trainer}: the framework {trainer.framework} has only the loop {loops[0]}")
    if trainer.workers > 1 and trainer.loop != STOCK:
        parser.error(f"--trainer {trainer}: several workers train only in the loop {STOCK}")
    if trainer.workers > 1 and not known_frameworks()[trainer.framework].engine:
        parser.error(f"--trainer {trainer}: the framework {trainer.framework} has no engine for several workers")
    return arguments
