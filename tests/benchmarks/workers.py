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
from collections.abc import Callable
from importlib import import_module
from itertools import product
from time import perf_counter

import loops

from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.registry import create_adapter, known_frameworks, set_environment
from trainmark.machine.gpus import limit_threads
from trainmark.machine.ranks import ALONE, Ranks, join_ranks

WORKERS = 2
ROUNDS = {"mnist-mlp-chainer": 7, "imagenet-resnet50": 3}
SAMPLES = {"mnist-mlp-chainer": 4000, "imagenet-resnet50": 8}
"""Samples of an epoch, which the number of workers divides; so it does each batch."""


def adapter_of(framework: str, recipe: str, ranks: Ranks, data: tuple) -> Callable[[], object]:
    """Return a function that trains an epoch with an adapter."""
    from trainmark.recipes.batch_order import epoch_feed
    from trainmark.recipes.catalogue import RECIPES
    from trainmark.recipes.initial_weights import draw_initial_weights

    entry, (inputs, labels, classes) = RECIPES[recipe], data
    adapter: Adapter = create_adapter(framework, 1, ranks=ranks)
    architecture = entry.architecture(inputs.shape[1:], classes)
    adapter.build(
        architecture=architecture, weights=draw_initial_weights(architecture, entry.initializer, (1, 1)),
        optimizer=entry.optimizer, device="cpu", dtype="float32",
    )  # fmt: skip
    adapter.load(split="train", inputs=inputs, labels=labels)
    feeds = (epoch_feed(len(inputs), loops.batch_size(recipe), (1, 1), epoch) for epoch in range(1, 10**6))

    def train() -> None:
        adapter.train_epoch(next(feeds))
        adapter.synchronize()

    return train


def example_of(framework: str, recipe: str, ranks: Ranks, data: tuple) -> Callable[[], object]:
    """Return a function that trains an epoch of the engine's example, on this rank's samples."""
    module, function = loops.EXAMPLES[framework.partition("-")[0]]
    inputs, labels, _ = data
    size = loops.batch_size(recipe) // ranks.size
    mine = slice(ranks.rank, None, ranks.size)
    trainer = getattr(import_module(module), function)
    return trainer(recipe, inputs[mine], labels[mine], size, shares=ranks.size > 1)


def seconds_of(train: Callable[[], object], ranks: Ranks) -> float:
    """Return the seconds of an epoch of the slowest rank."""
    ranks.wait()
    start = perf_counter()
    train()
    ranks.wait()
    return perf_counter() - start


def measure(framework: str, recipe: str, rounds: int) -> None:
    """Print efficiencies, as one of the ranks."""
    set_environment(framework, "stock")
    ranks = join_ranks(WORKERS)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[ranks.rank % len(cpus)]})
    limit_threads([0])
    data = tuple(part[: SAMPLES[recipe]] if hasattr(part, "shape") else part for part in loops.data(recipe))
    makers = {"trainmark": adapter_of, "example": example_of}  # the adapter starts the engine
    trained = {
        (name, size): make(framework, recipe, of, data)
        for size, of in ((ranks.size, ranks), (1, ALONE))
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
            subprocess.run([*launcher, *chosen], check=True)


if __name__ == "__main__":
    main()
