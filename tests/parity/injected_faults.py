"""Faults that are injected into an adapter or into its inputs, and the layer at which each must be found.

As a script it traces a framework without a fault and with each: --framework F --folder DIR.
"""

import argparse
import importlib
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from trainmark.frameworks.registry import create_adapter
from trainmark.networks.graph import Graph
from trainmark.parity.certified_steps import STAGES, CertifiedTraining, trace
from trainmark.parity.trace import write_trace
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer
from trainmark.trainer import Trainer

SAMPLES = 8


def image_network():
    """A network with every kind of layer of images that has a fault below."""
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
    return graph.architecture("images")


def sequence_network():
    """The same for layers of sequences."""
    graph = Graph((3, 18, 18))
    graph.add("patches", "Conv2D", filters=10, size=3, stride=6)
    graph.add("depthwise", "Conv2D", filters=10, size=3, padding=1, groups=10)
    graph.add("groups", "GroupNorm", groups=5)
    graph.add("gelu", "GELU")
    graph.add("sequence", "Sequence")
    graph.add("class_token", "ClassToken")
    graph.add("positions", "PositionEmbedding")
    norm = graph.add("norm", "LayerNorm")
    graph.add("attended", "Attention", after=(norm, norm, norm), heads=2)
    graph.add("first", "SelectToken")
    graph.add("classes", "Dense", units=4)
    return graph.architecture("sequences")


NETWORKS = {"images": image_network(), "sequences": sequence_network()}


def network(name):
    """The network in which a fault is injected, or that of this name."""
    layer = None if name in NETWORKS else expected(name)[0]
    own = {node.name for node in NETWORKS["sequences"].nodes}
    return NETWORKS[name if name in NETWORKS else "sequences" if layer in own else "images"]


def certified_training(architecture):
    """A certified training on three batches of noise."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(4 * SAMPLES, 3, 18, 18))
    labels = generator.integers(0, 4, len(inputs))
    return CertifiedTraining(
        architecture=architecture,
        weights=draw_initial_weights(architecture, "he_normal", (1, 1)),
        optimizer=Optimizer("momentum_sgd", 0.01, (("momentum", 0.9),)),
        splits={"train": (inputs, labels), "test": (inputs[:SAMPLES], labels[:SAMPLES])},
        batches=np.arange(3 * SAMPLES).reshape(3, SAMPLES),
        seed=(1, 1),
    )


@contextmanager
def other_attributes(adapter, name, **attributes):
    """The adapter builds one layer with other attributes."""
    tables = tables_of(adapter)
    nodes = (node for one in NETWORKS.values() for node in one.nodes)
    op = next(node.op for node in nodes if node.name == name)
    table = next(table for table in tables if op in table)
    true = table[op]

    def faulty(node, *rest):
        if node.name == name:
            node = replace(node, attributes={**node.attributes, **attributes})
        return true(node, *rest)

    with mock.patch.dict(table, {op: faulty}):
        yield


@contextmanager
def swapped_branches(adapter):
    """The adapter joins branches in the wrong order."""
    table = next(table for table in tables_of(adapter) if "Concat" in table)
    true = table["Concat"]

    def faulty(node, *rest):
        if adapter.framework == "chainer":  # its table has the outputs of layers, the others' have layers
            return true(node, *reversed(rest))
        layer = true(node, *rest)
        if adapter.framework == "torch":
            layer.forward, forward = lambda *inputs: forward(*reversed(inputs)), layer.forward
            return layer
        keras = adapter.framework.startswith("keras-")
        return lambda *inputs: layer(inputs[0][::-1]) if keras else layer(*reversed(inputs))

    with mock.patch.dict(table, {"Concat": faulty}):
        yield


@contextmanager
def other_method(adapter, name, faulty):
    """Replace a method of the adapter by `faulty`, which takes the true method before its arguments."""
    with mock.patch.object(adapter, name, partial(faulty, getattr(adapter, name))):
        yield


def shifted_order(true, feed):
    """The adapter takes the sample after each requested one."""
    return true(replace(feed, order=feed.order + 1))


def shuffled_epoch(true, feed):
    """The adapter shuffles within an epoch, as Keras's fit does by default."""
    return true(replace(feed, order=np.random.default_rng(1).permutation(feed.order)))


def last_update_lost(true, feed):
    """The adapter discards the last update of an epoch of several batches."""
    if feed.steps == 1:
        return true(feed)
    adapter, size = true.__self__, feed.batch_size
    losses = true(replace(feed, order=feed.order[:-size], samples=feed.samples - size))
    state = adapter.state()
    last = true(replace(feed, order=feed.order[-size:], samples=size))
    adapter.set_state(state)
    return np.concatenate([losses, last])


def another_prediction(true, split):
    """The adapter predicts the samples in another order."""
    return np.roll(true(split), 1, axis=0)


def ignored_momentum(true, *, optimizer, **rest):
    """The adapter trains without momentum, which does not show in the first step."""
    plain = Optimizer("sgd", optimizer.learning_rate)
    return true(optimizer=plain if optimizer.rule == "momentum_sgd" else optimizer, **rest)


@contextmanager
def nothing(adapter):
    """No fault."""
    yield


def tables_of(adapter):
    """The tables by which the adapter interprets layers."""
    library = adapter.framework.partition("-")[0]
    layers = importlib.import_module(f"trainmark.frameworks.{library}_layers")
    return (layers.LINKS, layers.FUNCTIONS) if library == "chainer" else (layers.LAYERS,)


def wrong_weight(training):
    """One initial weight is wrong."""
    weights = {name: array.copy() for name, array in training.weights.items()}
    weights["branch_b.kernel"][1, 1, 2, 3] += 1e-3
    return replace(training, weights=weights)


def shifted_batches(training):
    """All batches begin one sample later."""
    return replace(training, batches=training.batches + 1)


FAULTS = {
    "pooling without ceil mode": ("pool1", "forward", lambda adapter: other_attributes(adapter, "pool1", ceil=0)),
    "epsilon 1e-3": ("bn1", "forward", lambda adapter: other_attributes(adapter, "bn1", epsilon=1e-3)),
    "epsilon 1e-5": ("bn1", "forward", lambda adapter: other_attributes(adapter, "bn1", epsilon=1e-5)),
    "missing bias": ("branch_a", "forward", lambda adapter: other_attributes(adapter, "branch_a", bias=0)),
    "swapped branch": ("joined", "forward", swapped_branches),
    "LRN over 3 channels": ("norm1", "forward", lambda adapter: other_attributes(adapter, "norm1", n=3)),
    "groups of other channels": ("groups", "forward", lambda adapter: other_attributes(adapter, "groups", groups=2)),
    "approximate GELU": ("gelu", "forward", lambda adapter: other_attributes(adapter, "gelu", approximate=1)),
    "epsilon 1e-6": ("norm", "forward", lambda adapter: other_attributes(adapter, "norm", epsilon=1e-6)),
    "more heads": ("attended", "forward", lambda adapter: other_attributes(adapter, "attended", heads=5)),
    "causal attention": ("attended", "forward", lambda adapter: other_attributes(adapter, "attended", causal=1)),
    "another token": ("first", "forward", lambda adapter: other_attributes(adapter, "first", position=1)),
    "decay .99": ("bn1", "running statistics", lambda adapter: other_attributes(adapter, "bn1", decay=0.99)),
    "shuffled by one while training": (None, "loss", partial(other_method, name="train_epoch", faulty=shifted_order)),
    "shuffled within an epoch": (None, "epoch", partial(other_method, name="train_epoch", faulty=shuffled_epoch)),
    "last update of an epoch lost": (
        "conv1",
        "epoch",
        partial(other_method, name="train_epoch", faulty=last_update_lost),
    ),
    "predictions in another order": (
        "fc",
        "evaluation",
        partial(other_method, name="predict", faulty=another_prediction),
    ),
    "no momentum": ("conv1", "update", partial(other_method, name="build", faulty=ignored_momentum)),
}
"""Faults in an adapter, by name: (layer at which it must be found, `Location.what`, function that injects it)."""

TRAINING_FAULTS = {"wrong initial weight": ("branch_b", "initial weights", wrong_weight),
         "shuffled by one": (None, "input", shifted_batches)}  # fmt: skip
"""The same for faults in the training that an adapter is given."""

NAMES = (*FAULTS, *TRAINING_FAULTS)


def expected(name):
    """(layer, what) at which a fault must be found."""
    return {**FAULTS, **TRAINING_FAULTS}[name][:2]


def take_traces(framework: str, folder: Path) -> None:
    """Trace a framework with each fault, and each network without one ("images", "sequences").

    A fault of the forward pass shows in the stage that trains single steps.
    """
    adapter = create_adapter(framework, threads=2)
    for name in (*NETWORKS, *NAMES):
        architecture = network(name)
        in_single_steps = architecture.name == "sequences" or (name in NAMES and expected(name)[1] == "forward")
        stages = ("network",) if in_single_steps else ("network", "steps")
        training = certified_training(architecture)
        with FAULTS.get(name, (None, None, nothing))[2](adapter):
            training = TRAINING_FAULTS[name][2](training) if name in TRAINING_FAULTS else training
            traced = trace(adapter, training, Trainer(framework, "cpu"), {stage: STAGES[stage] for stage in stages})
            write_trace(traced, folder / f"{framework}-{name}.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    arguments = parser.parse_args()
    take_traces(arguments.framework, arguments.folder)
