"""Certifies every network in every framework, without a workflow. As a script, it takes one trace.

Images have the recipe's `certified_side` and are drawn from a seed: a pattern for each class plus noise. Each framework
runs in its own process, because Keras has one backend per process.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from harness import importing

from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.machine.cpus import allowed_cores, spread
from trainmark.machine.gpus import THREAD_VARIABLES
from trainmark.parity.certified_steps import NETWORK_STEPS, CertifiedTraining, certified_step_count, trace
from trainmark.parity.certified_training import CERTIFIED_SAMPLES
from trainmark.parity.compare import Pair, compare
from trainmark.parity.sentences import EQUAL
from trainmark.parity.trace import Trace, read_trace, write_trace
from trainmark.parity.whole_epochs import CertifiedEpochs, certified_feeds
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.own import read_networks, register
from trainmark.recipes.recipe import DTYPE
from trainmark.trainer import Trainer

CLASSES = 10
THREADS = 2
EPOCHS, EPOCH_SAMPLES = 2, 28


def architecture_of(recipe):
    """The recipe's network in its certified size."""
    side = recipe.certified_side
    shape = (recipe.input_shape[0], side, side) if side else recipe.input_shape
    return recipe.architecture(shape, 2 if recipe.name == "imdb-cnn" else CLASSES)


def training_of(recipe) -> CertifiedTraining:
    """Batches of the recipe's inputs and sixteen test samples."""
    architecture = architecture_of(recipe)
    steps = certified_step_count(architecture)
    samples = CERTIFIED_SAMPLES * steps
    generator = np.random.default_rng(7)
    splits = {
        split: draw_samples(architecture, count, generator) for split, count in (("train", samples), ("test", 16))
    }
    weights = draw_initial_weights(architecture, recipe.initializer, (1, 1))
    in_float32 = {split: (as_in_runs(inputs), labels) for split, (inputs, labels) in splits.items()}
    feed = partial(epoch_feed, EPOCH_SAMPLES, CERTIFIED_SAMPLES, (1, 1))  # with a short last batch
    feeds = certified_feeds(feed, samples)
    return CertifiedTraining(
        architecture=architecture,
        weights=weights,
        optimizer=recipe.optimizer,
        splits=splits,
        batches=np.arange(samples).reshape(steps, CERTIFIED_SAMPLES),
        seed=(1, 1),
        full_batches=np.arange(samples).reshape(2, -1),
        epochs=CertifiedEpochs(architecture, weights, recipe.optimizer, in_float32, feeds[:EPOCHS]),
    )


def as_in_runs(inputs):
    """Inputs in the dtype of runs: images in float32."""
    return inputs.astype(DTYPE) if np.issubdtype(inputs.dtype, np.floating) else inputs


def draw_samples(architecture, count, generator):
    """(inputs, labels): images that are similar within a class, or texts with padding in front."""
    shape = architecture.input_shape
    if architecture.takes_tokens:
        ids = generator.integers(4, 5000, (count, *shape)).astype(np.int32)
        ids[np.arange(shape[0]) < generator.integers(0, shape[0], (count, 1))] = 0
        return ids, generator.integers(0, 2, count)
    labels = np.arange(count) % CLASSES
    coarse = np.random.default_rng(8).random((CLASSES, shape[0], -(-shape[1] // 4), -(-shape[2] // 4)))
    patterns = np.kron(coarse, np.ones((1, 1, 4, 4)))[:, :, : shape[1], : shape[2]] - 0.5
    return patterns[labels] + generator.normal(0, 0.1, (count, *shape)), labels


Compared = tuple[Pair, set[str]]
"""A pair, and the ops of the network that one of its trainers declares to compute in float32."""


def pairs_of(
    recipe: str, trainers: list[Trainer], folder: Path, networks: tuple[str, ...] = ()
) -> tuple[list[Compared], list[str]]:
    """Compare all pairs of trainers, each traced in its own process, as many at a time as there are CPUs for.

    networks: files of own recipes.

    Returns the pairs, and what the trainers printed that could not be traced.
    """
    register(read_networks(networks))
    outcomes = _traces(recipe, trainers, folder, networks)
    traces = [outcome for outcome in outcomes if isinstance(outcome, Trace)]
    architecture = architecture_of(RECIPES[recipe])
    ops = {node.op for node in architecture.nodes}
    pairs = [
        (compare(first, second, architecture), ops & {*first.float32_ops, *second.float32_ops})
        for first, second in combinations(traces, 2)
    ]
    return pairs, [outcome for outcome in outcomes if isinstance(outcome, str)]


def _traces(recipe: str, trainers: list[Trainer], folder: Path, networks: tuple[str, ...]) -> list[Trace | str]:
    """Return the trace of each trainer, or what it printed if it could not be traced.

    Each process has THREADS CPUs of its own: Chainer's OpenBLAS and XLA's compiler would take all.
    """
    cpus = spread(allowed_cores().values())
    groups = [cpus[start : start + THREADS] for start in range(0, max(1, len(cpus) - THREADS + 1), THREADS)]
    left, processes = iter(groups), []

    def traced(trainer: Trainer) -> Trace | str:
        file = folder / f"{recipe}-{trainer}.npz"
        if file.exists():  # of an earlier call with this folder
            return read_trace(file)
        options = {"--recipe": recipe, "--trainer": str(trainer), "--out": str(file)}
        command = [sys.executable, __file__, *chain.from_iterable(options.items()), "--networks", *networks]
        variables = dict.fromkeys(THREAD_VARIABLES, str(len(groups[0])))
        here = importing(**variables, **({"CUDA_VISIBLE_DEVICES": ""} if trainer.device == "cpu" else {}))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=here)
        processes.append(process)
        errors = process.communicate()[1]
        return f"{recipe} in {trainer.name}: {errors[-3000:]}" if process.returncode else read_trace(file)

    # Linux binds each thread to CPUs of its own, and the processes that it starts with it.
    pool = ThreadPoolExecutor(len(groups), initializer=lambda: os.sched_setaffinity(0, next(left)))
    try:
        return list(pool.map(traced, trainers))
    finally:  # also when the time limit of a test ends this
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def installed() -> list[Trainer]:
    """The trainers of the installed frameworks on the CPU."""
    return [
        Trainer(name, "cpu", loop)
        for name, framework in known_frameworks().items()
        if not framework.missing_packages()
        for loop in framework.loops
    ]


def is_certified(pair: Pair, float32_ops: set[str]) -> bool:
    """Whether a pair has the class that is expected if these ops of the network are computed in float32.

    Where the recipe's optimizer amplifies float32 from step to step, as with batch normalisation, the pair is
    `different`. Then it has to be `single` where no step follows another one, and to diverge in one of these ops first.
    """
    if not float32_ops:
        return pair.parity in ("bitwise", "rounding")
    if pair.parity in EQUAL:
        return True
    of_one_step = pair.stages.get("network", {}).get("parity")
    return of_one_step in EQUAL and not pair.reasons and any(one.op in float32_ops for one in pair.causes[:1])


def assert_certified(recipe: str, pairs: list[Compared]) -> None:
    """All pairs have the expected class, over all steps, with updates that follow the rules."""
    for pair, float32_ops in pairs:
        assert is_certified(pair, float32_ops), pair.sentence
        assert pair.stages["network"]["steps"] == NETWORK_STEPS
        assert max(stage["updates"] or 0.0 for stage in pair.stages.values()) < 1e-9


def table_lines(recipe: str, pairs: list[Compared]) -> list[str]:
    """Lines with the largest relative differences, one per pair and stage; the sentence alone if a trainer failed."""
    lines = []
    for pair, _ in pairs:
        lines.append(f"{recipe:22} {pair.first} and {pair.second}: {pair.sentence}")
        of_epochs = {one.what: one.difference for one in pair.epochs or ()}
        for stage, differences in [*pair.stages.items(), ("float32", pair.float32 or {}), ("epochs", of_epochs)]:
            figures = "  ".join(
                f"{name} {value:.1e}" for name, value in differences.items() if isinstance(value, float)
            )
            lines.append(f"{'':22}   {stage:8} {differences.get('parity', ''):10} {figures}")
    return lines


def main() -> None:
    """Write one trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--networks", nargs="*", help="files of own recipes")
    parser.add_argument("--trainer", type=Trainer.parse, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    register(read_networks(arguments.networks))
    adapter = create_adapter(arguments.trainer.framework, THREADS, arguments.trainer.loop)
    write_trace(trace(adapter, training_of(RECIPES[arguments.recipe]), arguments.trainer), arguments.out)


if __name__ == "__main__":
    main()
