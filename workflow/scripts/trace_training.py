"""Train the certified steps with one trainer, and write its trace for the parity check."""

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainmark.console import Terminal, print_line, redirect_output
from trainmark.errors import exit_at_once, failing_in_one_sentence, in_workflow
from trainmark.frameworks.registry import create_adapter, set_environment
from trainmark.machine import gpus
from trainmark.machine.locks import hold_device
from trainmark.machine.ranks import Ranks
from trainmark.plan.plan_file import TrainerJob
from trainmark.recipes.catalogue import RECIPES
from trainmark.training.arguments import add_launcher, parse_job, planned_job, start_ranks


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="output: the trace")
    add_launcher(parser)
    return parse_job(parser)


def take_trace(
    arguments: argparse.Namespace, job: TrainerJob, certified: Mapping, title: str, terminal: Terminal, ranks: Ranks
) -> None:
    """Train the certified steps and write the trace. Of several ranks, the first writes it.

    The device is locked as for a run, so that no timed run is disturbed. certified: the certificate in the plan.
    """
    recipe, trainer = RECIPES[job.recipe], job.trainer
    code = {key: job.code[key] for key in ("sha256", "shared")}
    depends_on = {"experiment": certified["settings"], "recipe": certified["recipe"], "code": code}
    with hold_device(trainer.device, arguments.threads, title=title, stream=terminal, ranks=ranks) as device_lock:
        gpus.limit_threads(device_lock.cpus)
        set_environment(trainer.framework, trainer.loop)
        # imported here because numpy reads its number of threads when it is imported
        from trainmark.parity.certified_steps import trace
        from trainmark.parity.certified_training import certified_training
        from trainmark.parity.trace import write_trace

        training = certified_training(
            recipe,
            certified["settings"],
            job.dataset_folder,
            job.mean,
            len(device_lock.cpus),
            job.packed,
            certified["most_workers"],
        )
        adapter = create_adapter(trainer.framework, len(device_lock.cpus), trainer.loop, ranks=ranks)
        measured = trace(adapter, training, trainer)
        if ranks.rank == 0:
            write_trace(replace(measured, settings={**measured.settings, **depends_on}), arguments.out)


def main() -> None:
    """Write the trace and print the time it took. A failure is printed as one sentence; its traceback is in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"certify {arguments.job}"
    start = time.monotonic()
    with failing_in_one_sentence(title, arguments.log, terminal, exit_at_once):
        job, plan = planned_job(arguments)
        ranks = start_ranks(arguments, job.trainer.workers)
        with ranks.failing_together():
            take_trace(arguments, job, plan["certificates"][job.group], title, terminal, ranks)
        if not in_workflow() and ranks.rank == 0:
            print_line(f"{title}: traced in {time.monotonic() - start:.0f} s", terminal)
        ranks.leave()


if __name__ == "__main__":
    main()
    exit_at_once(0)
