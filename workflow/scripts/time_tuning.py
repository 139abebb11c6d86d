"""Time each step from a framework's stock loop to its tuned loop, and choose the tuned loop's number of threads."""

import argparse
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainmark.console import Terminal, print_line, redirect_output
from trainmark.errors import MeasurementError, failing_in_one_sentence
from trainmark.frameworks.registry import set_environment
from trainmark.machine import gpus
from trainmark.machine.cpus import cpu_model, in_order_of_use
from trainmark.machine.locks import hold_device
from trainmark.machine.provenance import digest_of_packages, installed_packages, variables
from trainmark.machine.variables import settings_in
from trainmark.plan.audits import PlannedRuns
from trainmark.plan.plan_file import TrainerJob
from trainmark.recipes.catalogue import RECIPES
from trainmark.records.tuning import write_tuning
from trainmark.training.arguments import parse_job, planned_job


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one timing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="output: the timed tuning")
    return parse_job(parser)


def time_and_write(
    arguments: argparse.Namespace, job: TrainerJob, experiment: Mapping, title: str, terminal: Terminal
) -> None:
    """Lock the device as for a run, time the steps, and write the result. experiment: the one in the plan."""
    recipe, trainer = RECIPES[job.recipe], job.trainer
    names = {key: getattr(job, key) for key in ("experiment", "recipe", "dataset")} | {"trainer": str(trainer)}
    with hold_device(trainer.device, arguments.threads, title=title, stream=terminal) as device_lock:
        # imported here because numpy makes its threads when it is imported
        from trainmark.datasets.prepared import read_manifest
        from trainmark.recipes.resolved import ResolvedTraining
        from trainmark.training.tuning import Timed, time_tuning, train_function
        from trainmark.training.turns import Trainee

        started, begin, cpus = datetime.now(UTC), time.monotonic(), in_order_of_use(device_lock.cpus)
        timed = Timed(
            trainer,
            ResolvedTraining(recipe, job.settings, read_manifest(job.dataset_folder)),
            job.dataset_folder,
            job.mean,
            job.packed,
        )
        conditions = {
            "inputs": {
                "settings": job.settings,
                "recipe": job.inputs["recipe"],
                "dataset_sha256": timed.training.manifest["content_sha256"],
                "code": job.code["sha256"],
            },
            "machine": {
                "host": platform.node(),
                "cpu_model": cpu_model(),
                "cpus": len(cpus),
                "gpu": device_lock.gpu,
                "settings": settings_in(variables()),
                "packages_sha256": digest_of_packages(installed_packages())["packages_sha256"],
            },
        }

        def start(steps: Sequence[str], threads: int) -> Trainee:
            # Processes inherit CPUs and environment variables. A variable that one step sets, all later ones have, too.
            gpus.limit_threads(cpus[:threads])
            set_environment(trainer.framework, "tuned" if steps else "stock", steps or None)
            name = f"{trainer.framework} with {', '.join(steps) or 'the stock loop'}, {threads} threads"
            return Trainee(name, train_function, timed, steps, threads)

        def announce(text: str) -> None:
            print_line(f"{title}: {text}", terminal)

        runs = PlannedRuns.of(experiment) if job.settings["time_tuning"] == "auto" else None
        try:
            tuning = time_tuning(timed, start, len(cpus), runs, announce)
        except MeasurementError as error:
            hint = "the timing needs the memory of two runs; time_tuning: false in the experiment leaves it out"
            raise MeasurementError(f"{error}; {hint}") from error
    made = {"started": started.isoformat(timespec="seconds"), "wall_seconds": time.monotonic() - begin}
    write_tuning(tuning | made | conditions | names, arguments.out)


def main() -> None:
    """Time the tuning. A failure is printed as one sentence; its traceback is in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"time the tuning of {arguments.job}"
    with failing_in_one_sentence(title, arguments.log, terminal):
        job, plan = planned_job(arguments)
        time_and_write(arguments, job, plan["config"]["experiments"][job.experiment], title, terminal)


if __name__ == "__main__":
    main()
