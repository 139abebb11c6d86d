"""The arguments that the scripts of jobs share: the plan, the job in it, threads and log."""

import argparse
import errno
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainmark.console import redirect_output
from trainmark.errors import DataError, DeviceError, why
from trainmark.machine.ranks import Ranks, join_ranks, no_launcher
from trainmark.plan.own_data import check_own_data
from trainmark.plan.plan_file import TrainerJob, add_plan, job_of, read_plan, run_of
from trainmark.plan.products import KEY
from trainmark.plan.run import Run


def parse_job(parser: argparse.ArgumentParser, *, of_run: bool = False) -> argparse.Namespace:
    """Add the shared arguments to a script's parser, and parse the command line.

    of_run: whether the job is one run and not of a trainer.
    """
    add_plan(parser)
    named = "experiment/recipe/dataset/trainer"
    if of_run:
        parser.add_argument("--run", required=True, help=f"id of the run: {named}/epochs-2/repeat-1")
    else:
        parser.add_argument("--job", required=True, help=f"what the job is of: {named}")
    parser.add_argument(
        "--threads", type=int, default=1, help="number of CPUs of each worker, with one thread each (default: 1)"
    )
    parser.add_argument(
        "--log", type=Path, help="file for the output of the framework or the command (default: the terminal)"
    )
    return parser.parse_args()


def planned_job(arguments: argparse.Namespace) -> tuple[TrainerJob, dict[str, Any]]:
    """Return the job of a command line, and the plan. Raises DataError if there is none, or code or data changed."""
    plan = read_plan(arguments.plan)
    job = job_of(plan, arguments.plan, arguments.job)
    job.check_code()
    _check_images(job, plan)
    made = (plan["certificates"].get(job.group), plan["evaluations"].get(arguments.job), {"file": job.tuning})
    _check_key(arguments.out, [one["file"] for one in made if one and one["file"]])
    return job, plan


def planned_run(arguments: argparse.Namespace) -> tuple[Run, TrainerJob, dict[str, Any]]:
    """Return the run of a command line, its job and the plan. Raises DataError if there is none, or data changed."""
    plan = read_plan(arguments.plan)
    run, job = run_of(plan, arguments.plan, arguments.run)
    _check_images(job, plan)
    _check_key(arguments.out, filter(None, [plan["records"].get(run.id)]))
    return run, job, plan


def _check_images(job: TrainerJob, plan: Mapping) -> None:
    """Raise DataError if the user's images have changed. Arrays, and what is packed, are copies of the data."""
    if job.packed is None and plan.get("datasets", {}).get(job.dataset, {}).get("kind") == "image_lists":
        check_own_data(plan, job.dataset)


def _check_key(out: Path, planned: Iterable[Path | str]) -> None:
    """Raise DataError if the key in the path of an output is none of the plan's: another call has replaced the plan."""
    keys = {key for file in planned for key in re.findall(KEY, str(file))}
    if keys and not keys & {*(own := re.findall(KEY, str(out)))} and own:
        raise DataError(f"{out} was planned by an earlier call of snakemake, whose plan another one has replaced")


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


def start_ranks(arguments: argparse.Namespace, workers: int) -> Ranks:
    """Start the workers of a command line or, in a process that was started as one, join the others.

    All but the first get logs of their own, beside that of the run.

    Raises DeviceError if there is no launcher or no MPI, or if it has started another number of processes.
    """
    _launch(arguments.launcher, workers)
    ranks = join_ranks(workers)
    if ranks.rank and arguments.log:
        ranks.run_log = redirect_output(arguments.log.with_suffix(f".rank{ranks.rank}.log"))
    return ranks
