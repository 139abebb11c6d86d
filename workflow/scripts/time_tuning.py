"""Time each step from a framework's stock loop to its tuned loop, and choose the tuned loop's number of threads."""

import argparse
import platform
import time
from collections.abc import Sequence
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
from trainmark.plan.code_digests import training_code
from trainmark.plan.plan_file import PlannedRuns, experiment_of, plan_if_there
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import recipe_values
from trainmark.records.tuning import write_tuning
from trainmark.training.arguments import parse_with_trainer


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one timing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", required=True, help="name of the experiment")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--plan", type=Path, help="plan.json of the workflow; without it the runs set no limit of time")
    parser.add_argument("--out", required=True, type=Path, help="output: the timed tuning")
    return parse_with_trainer(parser)


def time_and_write(arguments: argparse.Namespace, title: str, terminal: Terminal) -> None:
    """Lock the device as for a run, time the steps, and write the result."""
    recipe, trainer = RECIPES[arguments.recipe], arguments.trainer
    code = training_code(recipe, trainer)["sha256"]  # before any wait, during which the code may be edited
    names = {key: getattr(arguments, key) for key in ("experiment", "recipe", "dataset")} | {"trainer": str(trainer)}
    with hold_device(trainer.device, arguments.threads, title=title, stream=terminal) as device_lock:
        # imported here because numpy makes its threads when it is imported
        from trainmark.datasets.prepared import read_manifest
        from trainmark.recipes.resolved import ResolvedTraining
        from trainmark.training.tuning import Timed, time_tuning, train_function
        from trainmark.training.turns import Trainee

        started, begin, cpus = datetime.now(UTC), time.monotonic(), in_order_of_use(device_lock.cpus)
        timed = Timed(
            trainer,
            ResolvedTraining(recipe, arguments.settings, read_manifest(arguments.dataset_folder)),
            arguments.dataset_folder,
            arguments.mean,
            arguments.packed,
        )
        conditions = {
            "inputs": {
                "settings": dict(arguments.settings),
                "recipe": recipe_values(recipe),
                "dataset_sha256": timed.training.manifest["content_sha256"],
                "code": code,
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

        experiment = experiment_of(arguments.experiment, plan_if_there(arguments.plan))
        is_limited = experiment and arguments.settings["time_tuning"] == "auto"
        runs = PlannedRuns.of(experiment) if is_limited else None
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
    title = f"time the tuning of {arguments.recipe}: {arguments.trainer.name}"
    with failing_in_one_sentence(title, arguments.log, terminal):
        time_and_write(arguments, title, terminal)


if __name__ == "__main__":
    main()
