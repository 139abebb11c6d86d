"""Evaluate the trained weights of one trainer's runs with another trainer, to compare the results with the records.

With `keep_weights: needed` in the plan, weights that nothing else reads are removed afterwards.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from trainmark.console import Terminal, redirect_output
from trainmark.errors import exit_at_once, failing_in_one_sentence
from trainmark.frameworks.registry import create_adapter, set_environment
from trainmark.machine import gpus
from trainmark.machine.locks import hold_device
from trainmark.plan.audits import removes_weights
from trainmark.plan.plan_file import TrainerJob
from trainmark.recipes.catalogue import RECIPES
from trainmark.training.arguments import parse_job, planned_job


def parse_arguments() -> argparse.Namespace:
    """Parse the command line of one cross-evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, help="output: the cross-evaluation")
    return parse_job(parser)


def evaluate(arguments: argparse.Namespace, job: TrainerJob, plan: Mapping, title: str, terminal: Terminal) -> None:
    """Evaluate the weights, write the result, and remove weights that nothing else reads.

    The device is locked as for a run, so that no timed run is disturbed.
    """
    recipe, trainer = RECIPES[job.recipe], job.trainer
    records = [arguments.plan.parent / record for record in plan["evaluations"][arguments.job]["records"]]
    with hold_device(trainer.device, arguments.threads, title=title, stream=terminal) as device_lock:
        gpus.limit_threads(device_lock.cpus)
        set_environment(trainer.framework, trainer.loop)
        # imported here because numpy reads its number of threads when it is imported
        from trainmark.records.evaluation import write_evaluation
        from trainmark.training.cross_evaluation import cross_evaluation, remove_evaluated_weights

        evaluation = cross_evaluation(
            create_adapter(trainer.framework, len(device_lock.cpus), trainer.loop),
            trainer,
            recipe,
            job.settings,
            job.dataset_folder,
            job.mean,
            records,
            job.packed,
        )
        write_evaluation(evaluation, arguments.out)
        if removes_weights(plan["config"]["experiments"][job.experiment], on_texts=recipe.input is None):
            remove_evaluated_weights(evaluation, records)


def main() -> None:
    """Evaluate. A failure is printed as one sentence; its traceback is in the log."""
    arguments = parse_arguments()
    terminal = redirect_output(arguments.log)
    title = f"evaluate with {arguments.job}"
    with failing_in_one_sentence(title, arguments.log, terminal):
        job, plan = planned_job(arguments)
        evaluate(arguments, job, plan, title, terminal)


if __name__ == "__main__":
    main()
    exit_at_once(0)
