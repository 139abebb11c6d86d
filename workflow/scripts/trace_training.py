"""Take the certified steps with one framework on one device, and write what it showed of them: its trace."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from trainmark.console import Terminal, print_line, redirect_output
from trainmark.errors import failing_in_one_sentence, in_workflow
from trainmark.frameworks.registry import create_adapter
from trainmark.machine import gpus
from trainmark.machine.locks import hold_device
from trainmark.plan.dependencies import certified_recipe_values, code_record, tracing_code
from trainmark.recipes.catalogue import RECIPES
from trainmark.training.arguments import parse_with_trainer


def parse_arguments() -> argparse.Namespace:
    """The command line of one trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="the trace to write")
    return parse_with_trainer(parser)


def take_trace(arguments: argparse.Namespace, title: str, terminal: Terminal) -> None:
    """Hold a device, as runs do, so that no timed one is disturbed; take the steps; write."""
    recipe = RECIPES[arguments.recipe]
    asked = {
        "experiment": dict(arguments.settings),
        "recipe": certified_recipe_values(recipe),
        "code": code_record(tracing_code(recipe, arguments.framework)),  # before any wait: it may be edited meanwhile
    }
    with hold_device(arguments.device, arguments.threads, title=title, stream=terminal) as device_lock:
        gpus.limit_threads(device_lock.cpus)
        # numpy reads its number of threads when it is imported: not before
        from trainmark.parity.certified_steps import certified_training, trace
        from trainmark.parity.trace import write_trace

        training = certified_training(recipe, arguments.settings, arguments.dataset_folder, arguments.mean)
        adapter = create_adapter(arguments.framework, len(device_lock.cpus))
        found = trace(adapter, training, arguments.device)
        write_trace(replace(found, settings={**found.settings, **asked}), arguments.out)


def main() -> None:
    """Trace, and say so; what goes wrong is one sentence, with the traceback in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"certify {arguments.recipe}: {arguments.framework}, {arguments.device}"
    start = time.monotonic()
    with failing_in_one_sentence(title, arguments.log, terminal):
        take_trace(arguments, title, terminal)
    if not in_workflow():
        print_line(f"{title}: traced in {time.monotonic() - start:.0f} s", terminal)


if __name__ == "__main__":
    main()
