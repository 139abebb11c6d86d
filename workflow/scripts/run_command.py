"""Run a command recipe once, and write its record. The command's output goes to the log."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from trainmark.console import redirect_output
from trainmark.errors import failing_in_one_sentence
from trainmark.machine import gpus
from trainmark.plan.plan_file import TrainerJob, position_in_order
from trainmark.plan.run import Run
from trainmark.training.arguments import parse_job, planned_run
from trainmark.training.display import RunDisplay
from trainmark.training.job import hold_run_and_device
from trainmark.training.phases import PhaseTimes, process_start
from trainmark.training.process_exit import ProcessExit


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", help="container image in which the command runs (default: none)")
    parser.add_argument(
        "--out", required=True, type=Path, help="output: the record; the command runs in the folder `work` next to it"
    )
    return parse_job(parser, of_run=True)


def run_command(
    arguments: argparse.Namespace,
    run: Run,
    planned: TrainerJob,
    plan: Mapping,
    display: RunDisplay,
    process_exit: ProcessExit,
) -> NoReturn:
    """Lock the device, run the command, write the record and end the process."""
    start = process_start()
    phase_times = PhaseTimes(start)
    planned.check_code()  # before any wait, during which the code may be edited
    phase_times.add("start", time.monotonic() - start)
    with hold_run_and_device(
        arguments.out, process_exit.checkpoint_folder, run.trainer.device, arguments.threads, display, phase_times
    ) as device_lock:
        display.start()
        gpus.limit_threads(device_lock.cpus)
        from trainmark.commands.run import CommandJob, CommandRun  # pinned by now, with what it imports

        job = CommandJob(
            arguments.out.with_name("work"),
            arguments.image,
            planned,
            device_lock,
            position_in_order(run, plan),
            plan["call"],
        )
        command_run = CommandRun(run, job, phase_times)
        process_exit.stop_on_signals(command_run.stop)
        if process_exit.take_kept_record(command_run.is_of_this_run):
            process_exit.done_elsewhere()
        process_exit.finish(command_run.measure())


def main() -> None:
    """Run the command of the command line."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    with failing_in_one_sentence(f"run {arguments.run}", arguments.log, terminal):
        run, planned, plan = planned_run(arguments)
    display = RunDisplay(run, position_in_order(run, plan), terminal)
    process_exit = ProcessExit(arguments.out, arguments.log, display)
    process_exit.stop_on_signals()
    try:
        run_command(arguments, run, planned, plan, display, process_exit)
    except Exception as error:
        process_exit.fail(error)


if __name__ == "__main__":
    main()
