"""Check config files without running anything. Print the number of runs and how long they take, or what is wrong."""

import argparse
from collections import Counter
from pathlib import Path

from trainmark.config.keys_page import keys_page
from trainmark.config.load import default_config, load_config, read_documents
from trainmark.errors import run_command
from trainmark.machine.gpus import find_gpus
from trainmark.plan.local_files import with_local_files
from trainmark.plan.matrix import asks_for_gpus, expand_runs, why_no_verdict, with_devices, without_layers
from trainmark.session.forecast import estimate


def main() -> None:
    """Check the files together, as snakemake --configfile would combine them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "config",
        nargs="*",
        type=Path,
        default=[default_config()],
        help="config files; later ones override earlier ones",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="check the site file, and print how this cluster profile submits each kind of job: slurm, gridengine, ...",
    )
    parser.add_argument("--keys", action="store_true", help="print all keys, with meaning, unit and default, and exit")
    arguments = parser.parse_args()
    if arguments.keys:
        print(keys_page())
        return
    read, entries = load_config(arguments.config)
    loaded, catalogue = with_local_files(read, entries, read_documents(arguments.config), here=not arguments.profile)
    config = with_devices(loaded, gpu_found=asks_for_gpus(loaded) and bool(find_gpus()))
    runs = expand_runs(config)
    for name, experiment in config["experiments"].items():
        count = _runs(sum(run.experiment == name for run in runs))
        print("; ".join(filter(None, [f"{name}: {count}", why_no_verdict(name, experiment)])))
    for reason, number in Counter(without_layers(runs).values()).items():
        print(f"left out: {_runs(number)}, because {reason}")
    for name in config["prepare"]:
        print(f"{name}: will be prepared")
    print(f"{_runs(len(runs))} in all{f'; {estimate(config, catalogue, runs)}' if runs else ''}", flush=True)
    if arguments.profile:
        from trainmark.cluster.preview import show_submissions

        show_submissions(arguments.profile, arguments.config)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


if __name__ == "__main__":
    run_command(main)
