"""Are correct trainings refused for the losses of their steps, and up to which epoch would another order show?

Run: make bench-steps. Whole workflows of four recipes in three frameworks, one for each seed. LOAD=<n> lets so many
other processes compute meanwhile; RESULTS="<folder> ..." takes the runs of results folders that are there instead.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import numpy as np
from harness import FRAMEWORKS, snakemake, write_config

from trainmark.records.record import read_record
from trainmark.tables.epoch_checks import correlations, findings, ordered_epochs
from trainmark.tables.paired_runs import by_trainer, paired_runs

COMMON = {"frameworks": FRAMEWORKS, "devices": ["cpu"], "datasets": ["digits"], "epochs": [6], "repeats": 6}
SMALL = COMMON | {"input": {"subtract_mean": True}}

EXPERIMENTS = {
    "adam": SMALL | {"recipes": ["mnist-mlp-chainer"]},
    "dropout": SMALL | {"recipes": ["mnist-mlp-keras"]},
    "small": SMALL | {"recipes": ["mnist-mlp-flux"], "batch_size": 100},
    "streamed": COMMON
    | {"recipes": ["imagenet-nin"], "datasets": ["generated"], "epochs": [3], "repeats": 4, "batch_size": 10}
    | {"input": {"crop": [99, 99]}},
}
GENERATED = {
    "title": "Generated images", "format": "synthetic", "image_shape": [3, 112, 112], "classes": 10,
    "samples": {"train": 120, "test": 20}, "seed": 1,
}  # fmt: skip


def train(folder: Path, seed: int) -> None:
    """Run the workflow of all experiments with a seed."""
    experiments = {name: values | {"seed": seed} for name, values in EXPERIMENTS.items()}
    config = write_config(folder, {"datasets": {"generated": GENERATED}, "experiments": experiments})
    done = snakemake(folder, "results/tables/comparisons.csv", "--cores", "2", "--configfile", config)
    if done.returncode:
        sys.exit(done.printed[-3000:])
    refused = [line for line in (folder / "results/tables/comparisons.csv").open() if "refused" in line]
    print(f"seed {seed}: {len(refused)} comparisons refused", flush=True)


def judge(results: Path) -> int:
    """Print a line for each pair of trainers of a results folder. Returns the number of pairs that are refused."""
    records = [read_record(file) for file in sorted((results / "runs").rglob("record.json"))]
    refused = 0
    for group, trainers in by_trainer(records).items():
        for first, second in combinations(trainers, 2):
            for paired in paired_runs(trainers[first], trainers[second]):
                found = list(findings(paired.losses))
                refused += any(one.excess > 1 for one in found)
                largest: dict[str, float] = {}
                for one in found:
                    largest[one.check] = max(largest.get(one.check, 0.0), round(one.excess, 2))
                of_epochs = " ".join(f"{one:.2f}" for one in np.tanh(correlations(paired.losses)[0]))
                print(
                    f"{group[0]} {group[1]}, {first} and {second}: {len(paired.run_ids)} pairs of runs, "
                    f"{paired.losses[0].shape[-1]} steps an epoch; shares of the limits: {json.dumps(largest)}; "
                    f"correlations: {of_epochs}; another order would show up to epoch {ordered_epochs(paired.losses)}",
                    flush=True,
                )
    return refused


def main() -> None:
    """Print what the checks find, pair by pair, and how many pairs are refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, help="results folders that are there")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute meanwhile")
    arguments = parser.parse_args()
    folders = list(arguments.results)
    with ExitStack() as stack:
        for _ in range(arguments.load):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.kill)
        for seed in [] if folders else range(1, arguments.seeds + 1):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            train(folder, seed)
            folders.append(folder / "results")
        print(f"{sum(map(judge, folders))} pairs of trainers are refused in {len(folders)} results folders")


if __name__ == "__main__":
    main()
