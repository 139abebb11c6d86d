"""Errors that somebody could make in an adapter or in what it is given, and the layer that each must be found at.

Run as a script it takes the traces of a framework, without an error and with each: --framework F --folder DIR.
"""

import argparse
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from trainmark.frameworks.registry import create_adapter
from trainmark.networks.graph import Graph
from trainmark.parity.certified_steps import STAGES, Plan, trace
from trainmark.parity.trace import write_trace
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

SAMPLES = 8


def network():
    """Every kind of layer that an error below is planted in."""
    graph = Graph((3, 18, 18))
    graph.add("conv1", "Conv2D", filters=8, size=3, padding=1)
    graph.add("bn1", "BatchNorm")
    graph.add("relu1", "ReLU")
    graph.add("norm1", "LRN")
    stem = graph.add("pool1", "MaxPool2D", size=3, stride=2)
    for branch in "ab":
        graph.add(f"branch_{branch}", "Conv2D", after=stem, filters=5, size=3, padding=1)
    graph.add("joined", "Concat", after=("branch_a", "branch_b"))
    graph.add("flatten", "Flatten")
    graph.add("fc", "Dense", units=4)
    return graph.architecture("planted")


def plan():
    """Three batches of noise."""
    architecture = network()
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(4 * SAMPLES, 3, 18, 18))
    labels = generator.integers(0, 4, len(inputs))
    return Plan(
        architecture=architecture,
        weights=draw_initial_weights(architecture, "he_normal", (1, 1)),
        optimizer=Optimizer("momentum_sgd", 0.01, (("momentum", 0.9),)),
        splits={"train": (inputs, labels), "test": (inputs[:SAMPLES], labels[:SAMPLES])},
        batches=np.arange(3 * SAMPLES).reshape(3, SAMPLES),
        seed=(1, 1),
    )


@contextmanager
def other_attributes(adapter, name, **attributes):
    """The adapter takes one layer for one with other attributes."""
    tables = tables_of(adapter)
    op = next(node.op for node in network().nodes if node.name == name)
    table = next(table for table in tables if op in table)
    true = table[op]

    def planted(node, *rest):
        if node.name == name:
            node = replace(node, attributes={**node.attributes, **attributes})
        return true(node, *rest)

    with mock.patch.dict(table, {op: planted}):
        yield


@contextmanager
def swapped_branches(adapter):
    """The adapter joins branches in the wrong order."""
    table = next(table for table in tables_of(adapter) if "Concat" in table)
    true = table["Concat"]

    def planted(node, *rest):
        if adapter.framework == "chainer":
            return true(node, *reversed(rest))
        return lambda inputs: true(node, *rest)(inputs[::-1])

    with mock.patch.dict(table, {"Concat": planted}):
        yield


@contextmanager
def other_method(adapter, name, planted):
    """The adapter has another method; `planted` is given the true one before its arguments."""
    with mock.patch.object(adapter, name, partial(planted, getattr(adapter, name))):
        yield


def shifted_order(true, feed):
    """The adapter takes the sample after each that it is asked for."""
    return true(replace(feed, order=feed.order + 1))


def shuffled_epoch(true, feed):
    """The adapter shuffles within an epoch, as Keras's fit does unless it is told not to."""
    return true(replace(feed, order=np.random.default_rng(1).permutation(feed.order)))


def last_update_lost(true, feed):
    """The adapter throws away the last update of an epoch of several batches."""
    if feed.steps == 1:
        return true(feed)
    adapter, size = true.__self__, feed.batch_size
    losses = true(replace(feed, order=feed.order[:-size], samples=feed.samples - size))
    kept = adapter.state()
    last = true(replace(feed, order=feed.order[-size:], samples=size))
    adapter.set_state(kept)
    return np.concatenate([losses, last])


def another_prediction(true, split):
    """The adapter predicts the samples in another order than it was given them."""
    return np.roll(true(split), 1, axis=0)


def ignored_momentum(true, *, optimizer, **rest):
    """The adapter trains without momentum: nothing of the first step shows it."""
    plain = Optimizer("sgd", optimizer.learning_rate)
    return true(optimizer=plain if optimizer.rule == "momentum_sgd" else optimizer, **rest)


@contextmanager
def nothing(adapter):
    """No error in the adapter."""
    yield


def tables_of(adapter):
    """The tables by which the adapter interprets layers."""
    if adapter.framework == "chainer":
        from trainmark.frameworks import chainer_layers

        return chainer_layers.LINKS, chainer_layers.FUNCTIONS
    from trainmark.frameworks import keras_layers

    return (keras_layers.LAYERS,)


def wrong_weight(plan):
    """One of the initial weights is another."""
    weights = {name: array.copy() for name, array in plan.weights.items()}
    weights["branch_b.kernel"][1, 1, 2, 3] += 1e-3
    return replace(plan, weights=weights)


def shifted_batches(plan):
    """All batches begin one sample later."""
    return replace(plan, batches=plan.batches + 1)


PLANTS = {
    "pooling without ceil mode": ("pool1", "forward", lambda adapter: other_attributes(adapter, "pool1", ceil=0)),
    "epsilon 1e-3": ("bn1", "forward", lambda adapter: other_attributes(adapter, "bn1", epsilon=1e-3)),
    "epsilon 1e-5": ("bn1", "forward", lambda adapter: other_attributes(adapter, "bn1", epsilon=1e-5)),
    "missing bias": ("branch_a", "forward", lambda adapter: other_attributes(adapter, "branch_a", bias=0)),
    "swapped branch": ("joined", "forward", swapped_branches),
    "LRN with n 4": ("norm1", "forward", lambda adapter: other_attributes(adapter, "norm1", n=4)),
    "decay .99": ("bn1", "running statistics", lambda adapter: other_attributes(adapter, "bn1", decay=0.99)),
    "shuffled by one while training": (None, "loss", partial(other_method, name="train_epoch", planted=shifted_order)),
    "shuffled within an epoch": (None, "epoch", partial(other_method, name="train_epoch", planted=shuffled_epoch)),
    "last update of an epoch lost": (
        "conv1",
        "epoch",
        partial(other_method, name="train_epoch", planted=last_update_lost),
    ),
    "predictions in another order": (
        "fc",
        "evaluation",
        partial(other_method, name="predict", planted=another_prediction),
    ),
    "no momentum": ("conv1", "update", partial(other_method, name="build", planted=ignored_momentum)),
}
"""By name: the layer that it must be found at, in what, and how it is planted in an adapter."""

PLANS = {"wrong initial weight": ("branch_b", "initial weights", wrong_weight),
         "shuffled by one": (None, "input", shifted_batches)}  # fmt: skip
"""The same of errors in what an adapter is given."""

NO_ERROR_THERE = {("chainer", "LRN with n 4")}
"""Chainer takes a window of 5 for one of 4 (docs/frameworks.md)."""


def expected(name):
    """(layer, what) that an error must be found at."""
    return {**PLANTS, **PLANS}[name][:2]


def plants_of(framework):
    """The errors that can be planted in a framework."""
    return [name for name in (*PLANTS, *PLANS) if (framework, name) not in NO_ERROR_THERE]


def take_traces(framework: str, folder: Path) -> None:
    """Without an error ("none"), and with each."""
    adapter = create_adapter(framework, threads=2)
    stages = {name: STAGES[name] for name in ("network", "steps")}
    true = plan()
    for name in ("none", *plants_of(framework)):
        with PLANTS.get(name, (None, None, nothing))[2](adapter):
            given = PLANS[name][2](true) if name in PLANS else true
            write_trace(trace(adapter, given, "cpu", stages), folder / f"{framework}-{name}.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    arguments = parser.parse_args()
    take_traces(arguments.framework, arguments.folder)
