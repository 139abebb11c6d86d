"""Are correct trainings refused for the losses of their steps, and up to which epoch would another order show?

Run: make bench-steps. Twenty campaigns of four recipes in three frameworks are trained, with six seeds. LOAD=<n> lets
so many other processes compute meanwhile; RESULTS="<folder> ..." takes the runs of results folders that are there.
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
from trainmark.tables.agreement import by_trainer, paired_runs
from trainmark.tables.epoch_checks import correlations, findings, ordered_epochs
from trainmark.tables.run_checks import wrong_pairs

COMMON = {"frameworks": FRAMEWORKS, "devices": ["cpu"], "datasets": ["digits"], "epochs": [6], "repeats": 4}
SMALL = COMMON | {"input": {"subtract_mean": True}}

EXPERIMENTS = {
    "adam": SMALL | {"recipes": ["mnist-mlp-chainer"]},
    "dropout": SMALL | {"recipes": ["mnist-mlp-keras"]},
    "small": SMALL | {"recipes": ["mnist-mlp-flux"], "batch_size": 100},
    "streamed": COMMON
    | {"recipes": ["imagenet-nin"], "datasets": ["generated"], "epochs": [3], "batch_size": 10}
    | {"input": {"crop": [99, 99]}},
}
SEEDS = {"adam": 6, "dropout": 6, "small": 6, "streamed": 2}
"""Number of campaigns of each experiment, which differ in their seed."""

GENERATED = {
    "title": "Generated images", "format": "synthetic", "image_shape": [3, 112, 112], "classes": 10,
    "samples": {"train": 80, "test": 20}, "seed": 1,
}  # fmt: skip


def train(folder: Path, seed: int) -> None:
    """Train the runs of a seed."""
    experiments = {name: values | {"seed": seed} for name, values in EXPERIMENTS.items() if seed <= SEEDS[name]}
    config = write_config(folder, {"datasets": {"generated": GENERATED}, "experiments": experiments})
    done = snakemake(folder, "--until", "train", "--cores", "2", "--configfile", config)
    if done.returncode:
        sys.exit(done.printed[-3000:])


def judge(results: Path) -> tuple[int, int]:
    """Print a line for each pair of trainers of a results folder. Returns (campaigns, pairs that are refused)."""
    records = {str(file): read_record(file) for file in sorted((results / "runs").rglob("record.json"))}
    groups = by_trainer(records.values())
    for group, trainers in groups.items():
        for first, second in combinations(trainers, 2):
            for paired in paired_runs(trainers[first], trainers[second]):
                found = list(findings(paired.losses))
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
    return len(groups), len(wrong_pairs(records, {}, [])) // 2


def main() -> None:
    """Print what the checks find, pair by pair, and how many pairs are refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, help="results folders that are there")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute meanwhile")
    arguments = parser.parse_args()
    folders = list(arguments.results)
    with ExitStack() as stack:
        for _ in range(arguments.load):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.kill)
        for seed in [] if folders else range(1, max(SEEDS.values()) + 1):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            train(folder, seed)
            folders.append(folder / "results")
        campaigns, refused = map(sum, zip(*map(judge, folders), strict=True))
        print(f"{refused} pairs of trainers are refused in {campaigns} campaigns")


if __name__ == "__main__":
    main()
