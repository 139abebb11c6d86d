"""Evaluate the kept weights of a trainer's runs with another framework: do they give what the records say?"""

import argparse
from pathlib import Path

from trainmark.console import redirect_output
from trainmark.errors import run_command
from trainmark.frameworks.registry import create_adapter
from trainmark.machine import gpus
from trainmark.machine.locks import device_slot
from trainmark.recipes.catalogue import RECIPES
from trainmark.training.arguments import parse_with_trainer


def main() -> None:
    """Hold a device, as runs do, so that no timed one is disturbed; evaluate; write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", required=True, type=Path, nargs="+", help="of the runs; their weights lie beside")
    parser.add_argument("--out", required=True, type=Path, help="the cross-evaluation to write")
    arguments = parse_with_trainer(parser)
    redirect_output(arguments.log)
    with device_slot(arguments.device, arguments.threads) as slot:
        gpus.limit_threads(slot.cpus)
        # numpy reads its number of threads when it is imported: not before
        from trainmark.records.evaluation import write_evaluation
        from trainmark.training.cross_evaluation import cross_evaluation

        adapter = create_adapter(arguments.framework, len(slot.cpus))
        found = cross_evaluation(
            adapter,
            arguments.device,
            RECIPES[arguments.recipe],
            arguments.settings,
            arguments.dataset_folder,
            arguments.mean,
            arguments.records,
        )
        write_evaluation(found, arguments.out)


if __name__ == "__main__":
    run_command(main)
