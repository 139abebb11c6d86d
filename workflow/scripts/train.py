"""Train one run, or resume it from its checkpoint, and write its record. Output of the framework goes to the log."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from trainmark.console import redirect_output
from trainmark.errors import failing_in_one_sentence
from trainmark.frameworks.registry import set_environment
from trainmark.machine import gpus
from trainmark.machine.cpus import cpu_model, in_order_of_use
from trainmark.machine.provenance import variables
from trainmark.machine.variables import seconds_in, settings_in
from trainmark.plan.audits import audited_epochs, writes_weights
from trainmark.plan.plan_file import TrainerJob, position_in_order
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.records.tuning import chosen_threads
from trainmark.training.arguments import add_launcher, parse_job, planned_run, start_ranks
from trainmark.training.display import RunDisplay
from trainmark.training.job import Job, hold_run_and_device
from trainmark.training.phases import PhaseTimes, process_start
from trainmark.training.process_exit import ProcessExit

CHECKPOINT_SECONDS_VARIABLE = "TRAINMARK_CHECKPOINT_SECONDS"
"""Environment variable with the minimum seconds between two checkpoints."""


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_launcher(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="output: the record; checkpoints are written next to it"
    )
    return parse_job(parser, of_run=True)


def train(
    arguments: argparse.Namespace,
    run: Run,
    planned: TrainerJob,
    plan: Mapping,
    display: RunDisplay,
    process_exit: ProcessExit,
) -> NoReturn:
    """Lock the device, train, write the record and end the process. Of several workers, each does so with its part.

    planned: what the plan says of the run.
    """
    start = process_start()
    phase_times = PhaseTimes(start)
    recipe = RECIPES[run.recipe]
    planned.check_code()  # before any wait, during which the code may be edited
    phase_times.add("start", time.monotonic() - start)
    ranks = process_exit.ranks
    with hold_run_and_device(
        arguments.out,
        process_exit.checkpoint_folder,
        run.trainer.device,
        arguments.threads,
        display,
        phase_times,
        ranks,
    ) as device_lock:
        display.start()
        threads = chosen_threads(planned.tuning, cpu_model(), device_lock.cpus, settings_in(variables()))
        gpus.limit_threads(in_order_of_use(device_lock.cpus)[:threads])
        set_environment(run.trainer.framework, run.trainer.loop)
        with phase_times.phase("import"):  # here because numpy reads its number of threads when it is imported
            from trainmark.machine.memory import memory_watch
            from trainmark.training.kept_weights import FILE_NAME
            from trainmark.training.run import Training
        job = Job(
            planned,
            device_lock,
            process_exit.checkpoint_folder,
            seconds_in(CHECKPOINT_SECONDS_VARIABLE, 5),
            position_in_order(run, plan),
            arguments.out.with_name(FILE_NAME),
            writes_weights(plan["config"]["experiments"][run.experiment], on_texts=recipe.input is None),
            plan["call"],
            tuned_threads=threads,
            ranks=ranks,
            audited_epochs=audited_epochs(run, plan),
        )
        training = Training(run, recipe, job, phase_times)
        if ranks.from_first(lambda: process_exit.take_kept_record(training.measurements.is_of_this_run)):
            process_exit.done_elsewhere()

        def on_excess(resident_mib: float) -> None:
            try:
                with ranks.failing_together():
                    if record := training.over_limit(resident_mib):
                        process_exit.finish(record)
            except Exception as error:  # this runs in the watch's thread, where nothing else would catch it
                process_exit.fail(error)

        with memory_watch(planned.settings["memory_limit_mib"], on_excess):
            process_exit.finish(training.train(display.epoch_done, display.went_on, display.steps_done))


def main() -> None:
    """Train the run of the command line, and show its progress."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    with failing_in_one_sentence(f"train {arguments.run}", arguments.log, terminal):
        run, planned, plan = planned_run(arguments)
    display = RunDisplay(run, position_in_order(run, plan), terminal)
    process_exit = ProcessExit(arguments.out, arguments.log, display)
    process_exit.stop_on_signals()
    try:
        process_exit.ranks = start_ranks(arguments, run.trainer.workers)
        if process_exit.ranks.rank:
            display.silence()
        with process_exit.ranks.failing_together():
            train(arguments, run, planned, plan, display, process_exit)
    except Exception as error:
        process_exit.fail(error)


if __name__ == "__main__":
    main()
