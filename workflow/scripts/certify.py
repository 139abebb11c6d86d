"""Compare the traces of all trainers of a group, and write its certificate: do they train the same network?"""

import argparse
import sys
from pathlib import Path

from trainmark.errors import run_command
from trainmark.parity.certificate import certificate, certificate_lines, write_certificate
from trainmark.parity.trace import read_trace
from trainmark.plan.dependencies import code_record
from trainmark.recipes.catalogue import RECIPES


def main() -> None:
    """Read the traces, compare them in pairs, write, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--recipe", required=True, choices=RECIPES)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--traces", required=True, type=Path, nargs="+", help="of trace_training.py, a file a trainer")
    parser.add_argument("--out", required=True, type=Path, help="the certificate to write")
    arguments = parser.parse_args()
    traces = [read_trace(path) for path in arguments.traces]
    settings = traces[0].settings
    architecture = RECIPES[arguments.recipe].architecture(tuple(settings["input_shape"]), settings["classes"])
    group = {key: getattr(arguments, key) for key in ("experiment", "recipe", "dataset")}
    found = certificate(group, traces, architecture, code_record(("certify",)))
    write_certificate(found, arguments.out)
    title = f"certify {arguments.experiment}, {arguments.recipe} on {arguments.dataset}:"
    lines = "\n  ".join([title, *certificate_lines(found)])
    sys.stderr.write(f"{lines}\n")  # in one write, as in console.print_line


if __name__ == "__main__":
    run_command(main)
