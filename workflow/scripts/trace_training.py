"""Train the certified steps with one trainer, and write its trace for the parity check."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from trainmark.console import Terminal, print_line, redirect_output
from trainmark.errors import exit_at_once, failing_in_one_sentence, in_workflow
from trainmark.frameworks.registry import create_adapter, set_environment
from trainmark.machine import gpus
from trainmark.machine.locks import hold_device
from trainmark.machine.ranks import Ranks
from trainmark.plan.code_digests import training_code
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import certified_recipe_values
from trainmark.training.arguments import add_launcher, parse_with_trainer, start_ranks


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="output: the trace")
    parser.add_argument(
        "--most-workers", type=int, default=1, help="largest number of workers of the certificate's trainers"
    )
    add_launcher(parser)
    return parse_with_trainer(parser)


def take_trace(arguments: argparse.Namespace, title: str, terminal: Terminal, ranks: Ranks) -> None:
    """Train the certified steps and write the trace. Of several ranks, the first writes it.

    The device is locked as for a run, so that no timed run is disturbed.
    """
    recipe, trainer = RECIPES[arguments.recipe], arguments.trainer
    depends_on = {
        "experiment": dict(arguments.settings),
        "recipe": certified_recipe_values(recipe),
        "code": training_code(recipe, trainer),  # computed before any wait, during which the code may be edited
    }
    with hold_device(trainer.device, arguments.threads, title=title, stream=terminal, ranks=ranks) as device_lock:
        gpus.limit_threads(device_lock.cpus)
        set_environment(trainer.framework, trainer.loop)
        # imported here because numpy reads its number of threads when it is imported
        from trainmark.parity.certified_steps import trace
        from trainmark.parity.certified_training import certified_training
        from trainmark.parity.trace import write_trace

        training = certified_training(
            recipe,
            arguments.settings,
            arguments.dataset_folder,
            arguments.mean,
            len(device_lock.cpus),
            arguments.packed,
            arguments.most_workers,
        )
        adapter = create_adapter(trainer.framework, len(device_lock.cpus), trainer.loop, ranks=ranks)
        measured = trace(adapter, training, trainer)
        if ranks.rank == 0:
            write_trace(replace(measured, settings={**measured.settings, **depends_on}), arguments.out)


def main() -> None:
    """Write the trace and print the time it took. A failure is printed as one sentence; its traceback is in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"certify {arguments.recipe}: {arguments.trainer.name}"
    start = time.monotonic()
    with failing_in_one_sentence(title, arguments.log, terminal, exit_at_once):
        ranks = start_ranks(arguments)
        with ranks.failing_together():
            take_trace(arguments, title, terminal, ranks)
        if not in_workflow() and ranks.rank == 0:
            print_line(f"{title}: traced in {time.monotonic() - start:.0f} s", terminal)
        ranks.leave()


if __name__ == "__main__":
    main()
    exit_at_once(0)
