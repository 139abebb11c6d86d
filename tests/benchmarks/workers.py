"""How well do two workers scale beside the engine's own example?

Run: make bench-workers. The example of each engine's documentation and the adapter train an epoch each in turn, with
all ranks and with one, with batches of the same size of all ranks together. Efficiency is time of one / (time of all *
ranks), medians. Each rank has a CPU. A ratio of efficiencies also falls if the adapter is faster with one worker, so
the ratio of the times is beside it.
"""

import argparse
import os
import statistics
import subprocess
import sys
from itertools import product

import loops

from trainmark.frameworks.registry import known_frameworks, set_environment
from trainmark.machine.gpus import THREAD_VARIABLES, limit_threads
from trainmark.machine.ranks import ALONE, join_ranks
from trainmark.training.communication import seconds_of

WORKERS = 2
ROUNDS = {"mnist-mlp-chainer": 7, "imagenet-resnet50": 3}
SAMPLES = {"mnist-mlp-chainer": 4000, "imagenet-resnet50": 8}
"""Samples of an epoch, which the number of workers divides; so it does each batch."""


def measure(framework: str, recipe: str, rounds: int) -> None:
    """Print efficiencies, as one of the ranks."""
    set_environment(framework, "stock")
    ranks = join_ranks(WORKERS)
    limit_threads([sorted(os.sched_getaffinity(0))[ranks.rank]])
    makers = {"trainmark": loops.adapter_of, "example": loops.example_of}  # the adapter starts the engine
    trained = {
        (name, of.size): make(framework, recipe, ranks=of, sizes=(SAMPLES[recipe], loops.sizes_of(recipe)[1]))
        for of in (ranks, ALONE)
        for name, make in makers.items()
    }
    seconds: dict[tuple[str, int], list[float]] = {variant: [] for variant in trained}
    for turn in range(rounds + 1):
        for variant in [*trained][:: 1 if turn % 2 else -1]:
            # With one worker the other rank is idle, as in a run with one.
            is_mine = variant[1] > 1 or ranks.rank == 0
            took = seconds_of(trained[variant] if is_mine else lambda: None, ranks)
            if turn:
                seconds[variant].append(took)
    if ranks.rank == 0:
        medians = {variant: statistics.median(values) for variant, values in seconds.items()}
        efficiency = {name: medians[name, 1] / (ranks.size * medians[name, ranks.size]) for name in makers}
        of_epoch = {name: f"{medians[name, 1]:.3f} and {medians[name, ranks.size]:.3f} s" for name in makers}
        print(
            f"{framework}, {recipe}: efficiency of {ranks.size} workers {efficiency['trainmark']:.3f} "
            f"({of_epoch['trainmark']} an epoch), of the engine's example {efficiency['example']:.3f} "
            f"({of_epoch['example']}): ratio {efficiency['trainmark'] / efficiency['example']:.2f}; "
            f"time with {ranks.size} workers / the example's "
            f"{medians['trainmark', ranks.size] / medians['example', ranks.size]:.2f}",
            flush=True,
        )
    ranks.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    engines = [name for name, one in known_frameworks().items() if one.engine and not one.missing_packages()]
    parser.add_argument("--frameworks", nargs="+", default=engines)
    parser.add_argument("--recipes", nargs="+", default=[*SAMPLES])
    parser.add_argument("--rounds", type=int, help="default: 7, or 3 of a network that takes minutes")
    parser.add_argument("--as-rank", action="store_true", help="what the launcher starts")
    arguments = parser.parse_args()
    launcher = ["mpiexec", "--bind-to", "none", "-n", str(WORKERS), sys.executable, __file__, "--as-rank"]
    for recipe, framework in product(arguments.recipes, arguments.frameworks):
        rounds, engine = arguments.rounds or ROUNDS[recipe], known_frameworks()[framework].engine
        if engine and recipe == "imagenet-resnet50" and "BatchNorm" in engine.lacks:
            print(f"{framework}, {recipe}: several workers are refused (batch normalisation)")
        elif arguments.as_rank:
            measure(framework, recipe, rounds)
        else:
            chosen = ["--frameworks", framework, "--recipes", recipe, "--rounds", str(rounds)]
            # Before numpy is imported: the threads of two CPUs would share each rank's one.
            environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
            subprocess.run([*launcher, *chosen], check=True, env=environment)


if __name__ == "__main__":
    main()
