"""Compare the traces of all trainers of a group in pairs, and write the parity certificate."""

import argparse
import sys
from pathlib import Path

from trainmark.errors import DataError, run_command
from trainmark.machine.locks import cpus_beside_runs
from trainmark.plan.code_digests import code_of_kind, digest, refuse_other_code
from trainmark.plan.plan_file import add_plan, read_plan
from trainmark.recipes.catalogue import RECIPES


def main() -> None:
    """Read and compare the traces, write the certificate and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    parser.add_argument("--experiment", required=True, help="name of the experiment")
    parser.add_argument("--recipe", required=True, help="name of the recipe")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    traces_help = "traces written by trace_training.py, one per trainer"
    parser.add_argument("--traces", required=True, type=Path, nargs="+", help=traces_help)
    parser.add_argument("--out", required=True, type=Path, help="output: the certificate")
    arguments = parser.parse_args()
    planned = read_plan(arguments.plan)["certificates"]
    group = "{experiment}/{recipe}/{dataset}".format_map(vars(arguments))
    if group not in planned:
        raise DataError(f"{arguments.plan} has no certificate {group}; it has {', '.join(planned) or 'none'}")
    refuse_other_code(digest("certify"), planned[group]["made_by"])
    with cpus_beside_runs(1, f"certify {arguments.recipe}"):
        _certify(arguments)


def _certify(arguments: argparse.Namespace) -> None:
    # Imported here, because these imports take longer than the rest, and would disturb a run before the lock is held.
    from trainmark.parity.certificate import certificate, certificate_lines, write_certificate
    from trainmark.parity.trace import read_trace

    traces = [read_trace(path) for path in arguments.traces]
    settings = traces[0].settings
    recipe, input_shape = RECIPES[arguments.recipe], tuple(settings["input_shape"])
    architecture = recipe.network(input_shape, settings["classes"], settings["experiment"])
    group = {key: getattr(arguments, key) for key in ("experiment", "recipe", "dataset")}
    document = certificate(group, traces, architecture, code_of_kind("certify"))
    write_certificate(document, arguments.out)
    title = f"certify {arguments.experiment}, {arguments.recipe} on {arguments.dataset}:"
    lines = "\n  ".join([title, *certificate_lines(document)])
    sys.stderr.write(f"{lines}\n")  # a single write, as in console.print_line


if __name__ == "__main__":
    run_command(main)
