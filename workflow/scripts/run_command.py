"""Run a command recipe once, and write its record. The command's output goes to the log."""

import argparse
import json
import time
from pathlib import Path
from typing import NoReturn

from trainmark.console import redirect_output
from trainmark.machine import gpus
from trainmark.plan.code_digests import code_of_kind
from trainmark.plan.plan_file import plan_if_there, position_in_order
from trainmark.plan.run import Run
from trainmark.training.arguments import add_job_arguments, add_run_arguments, run_of
from trainmark.training.display import RunDisplay
from trainmark.training.job import hold_run_and_device
from trainmark.training.phases import PhaseTimes, process_start
from trainmark.training.process_exit import ProcessExit


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", required=True, help="name of the command")
    parser.add_argument("--command", required=True, type=json.loads, help="the command as JSON (config/schema.yaml)")
    parser.add_argument("--files-folder", required=True, type=Path, help="folder of the command's fetched files")
    parser.add_argument("--image", help="container image in which the command runs (default: none)")
    parser.add_argument("--plan", type=Path, help="plan.json of the workflow, with the order of all runs")
    parser.add_argument(
        "--out", required=True, type=Path, help="output: the record; the command runs in the folder `work` next to it"
    )
    add_run_arguments(parser)
    add_job_arguments(parser)
    return parser.parse_args()


def run_command(arguments: argparse.Namespace, run: Run, display: RunDisplay, process_exit: ProcessExit) -> NoReturn:
    """Lock the device, run the command, write the record and end the process."""
    start = process_start()
    phase_times = PhaseTimes(start)
    code = code_of_kind("run_command")  # computed before any wait, during which the code may be edited
    plan = plan_if_there(arguments.plan)
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
            arguments.files_folder,
            device_lock,
            code,
            position_in_order(run, plan),
            plan.get("call"),
        )
        command_run = CommandRun(run, arguments.command, arguments.settings, job, phase_times)
        process_exit.stop_on_signals(command_run.stop)
        if process_exit.take_kept_record(command_run.is_of_this_run):
            process_exit.done_elsewhere()
        process_exit.finish(command_run.measure())


def main() -> None:
    """Run the command of the command line."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    run = run_of(arguments)
    display = RunDisplay(run, position_in_order(run, plan_if_there(arguments.plan)), terminal)
    process_exit = ProcessExit(arguments.out, arguments.log, display)
    process_exit.stop_on_signals()
    try:
        run_command(arguments, run, display, process_exit)
    except Exception as error:
        process_exit.fail(error)


if __name__ == "__main__":
    main()
