"""Evaluate the kept weights of a trainer's runs with another framework: do they give what the records say?"""

import argparse
from pathlib import Path

from trainmark.console import Terminal, redirect_output
from trainmark.errors import failing_in_one_sentence
from trainmark.frameworks.registry import create_adapter
from trainmark.machine import gpus
from trainmark.machine.locks import hold_device
from trainmark.recipes.catalogue import RECIPES
from trainmark.training.arguments import parse_with_trainer


def parse_arguments() -> argparse.Namespace:
    """The command line of one cross-evaluation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", required=True, type=Path, nargs="+", help="of the runs; their weights lie beside")
    parser.add_argument("--out", required=True, type=Path, help="the cross-evaluation to write")
    return parse_with_trainer(parser)


def evaluate(arguments: argparse.Namespace, title: str, terminal: Terminal) -> None:
    """Hold a device, as runs do, so that no timed one is disturbed; evaluate; write."""
    with hold_device(arguments.device, arguments.threads, title=title, stream=terminal) as device_lock:
        gpus.limit_threads(device_lock.cpus)
        # numpy reads its number of threads when it is imported: not before
        from trainmark.records.evaluation import write_evaluation
        from trainmark.training.cross_evaluation import cross_evaluation

        found = cross_evaluation(
            create_adapter(arguments.framework, len(device_lock.cpus)),
            arguments.device,
            RECIPES[arguments.recipe],
            arguments.settings,
            arguments.dataset_folder,
            arguments.mean,
            arguments.records,
        )
        write_evaluation(found, arguments.out)


def main() -> None:
    """Evaluate; what goes wrong is one sentence, with the traceback in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"evaluate {arguments.recipe}: {arguments.framework}, {arguments.device}"
    with failing_in_one_sentence(title, arguments.log, terminal):
        evaluate(arguments, title, terminal)


if __name__ == "__main__":
    main()
