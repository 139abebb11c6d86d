"""The tuned loop of Chainer: slices of arrays on the device, updates in the cache, and faster dropout masks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from trainmark.frameworks.chainer_adapter import ChainerAdapter, send_batch
from trainmark.frameworks.chainer_layers import Network, chainer
from trainmark.frameworks.chainer_optimizers import OPTIMIZERS, set_rates
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.stream import Stream

TUNING = {
    "chainer": {
        "slices": {"text": "a loop of its own over slices of arrays on the device"},
        "checks": {"text": "no checks of types"},
        "pieces": {"text": "updates in pieces that stay in the cache", "device": "cpu"},
        "masks": {"text": "dropout masks in float32", "device": "cpu", "op": "Dropout"},
        "kernels": {
            "text": "OpenBLAS's kernels for AVX-512",
            "device": "cpu",
            # OpenBLAS gives CPUs that are newer than itself the kernels for AVX2.
            "avx512_environment": {"OPENBLAS_CORETYPE": "SKYLAKEX"},
        },
    }
}
"""The steps from the stock loop, see `tuning.TuningStep`."""

PIECE = 1 << 15
"""Number of values that are updated at a time: four arrays of float32 and their temporaries fit into 1 MiB of cache."""


def _update_in_pieces(rule: chainer.UpdateRule, update: Callable, parameter: chainer.Parameter) -> None:
    """Update a parameter on the CPU, one piece after the other.

    Chainer's rules create an array for each operation. Arrays of the parameter's size go through the memory, those of a
    piece stay in the cache. The rules are elementwise, so the result is the same, bit for bit. On the GPU they are one
    kernel each already.

    update: the rule's own `update_core_cpu`.
    """
    whole = rule.state
    values, gradient = parameter.array.reshape(-1), parameter.grad.reshape(-1)
    states = {name: array.reshape(-1) for name, array in whole.items()}
    for start in range(0, values.size, PIECE):
        piece = slice(start, start + PIECE)
        rule._state = {name: array[piece] for name, array in states.items()}
        array = values[piece]
        update(SimpleNamespace(array=array, data=array, grad=gradient[piece], dtype=array.dtype))
    rule._state = whole


def _in_pieces(create: Callable[..., chainer.Optimizer]) -> Callable[..., chainer.Optimizer]:
    """Return a function like those of OPTIMIZERS, whose optimizer updates in pieces."""

    def create_in_pieces(**constants: float) -> chainer.Optimizer:
        optimizer = create(**constants)
        create_rule = optimizer.create_update_rule

        def create_rule_in_pieces() -> chainer.UpdateRule:
            rule = create_rule()
            rule.update_core_cpu = partial(_update_in_pieces, rule, rule.update_core_cpu)
            return rule

        optimizer.create_update_rule = create_rule_in_pieces
        return optimizer

    return create_in_pieces


IN_PIECES: Mapping[str, Callable[..., chainer.Optimizer]] = {
    rule: _in_pieces(create) for rule, create in OPTIMIZERS.items()
}
"""Functions that return Chainer's optimizer from the constants of an update rule, by rule."""


class TunedNetwork(Network):
    """The network with dropout masks drawn in the dtype of the weights; on the CPU, Chainer draws them in float64."""

    generator: np.random.Generator | None = None
    """Draws the masks of the next steps; None: Chainer draws them."""

    def _output(self, node: Node, inputs: list) -> chainer.Variable:
        if node.op != "Dropout" or self.generator is None or self.masks is not None or not chainer.config.train:
            return super()._output(node, inputs)
        rate, dtype = node.attributes["rate"], inputs[0].dtype
        kept = self.generator.random(inputs[0].shape, dtype) >= rate
        return chainer.functions.dropout(inputs[0], mask=kept * dtype.type(1 / (1 - rate)))


def create(framework: str, threads: int, taken: StepsTaken) -> "TunedChainerAdapter":
    """Return the tuned adapter of a framework."""
    return TunedChainerAdapter(framework, threads, taken)


class TunedChainerAdapter(ChainerAdapter):
    """See `adapter.Adapter`."""

    loop = "tuned"
    network_class = TunedNetwork
    _network: TunedNetwork

    def __init__(self, framework: str, threads: int, taken: StepsTaken) -> None:
        super().__init__(framework, threads)
        self._taken = taken

    def build(self, *, architecture: Architecture, device: str, **arguments: Any) -> None:
        """See `adapter.Adapter.build`."""
        self._steps = self._taken({node.op for node in architecture.nodes}, device)
        self.optimizers = IN_PIECES if "pieces" in self._steps else OPTIMIZERS
        super().build(architecture=architecture, device=device, **arguments)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `adapter.Adapter.train_epoch`."""
        set_rates(self._optimizer, feed.rates)
        if "masks" in self._steps:
            self._network.generator = np.random.Generator(np.random.SFC64(feed.dropout_seed))
        else:
            self._device.xp.random.seed(feed.dropout_seed)
        losses, samples = [], 0
        with chainer.using_config("type_check", "checks" not in self._steps):
            for inputs, labels in self._batches(feed):
                loss = self._loss(inputs, labels)
                self._network.cleargrads()
                loss.backward()
                self._optimizer.update()
                losses.append(loss.array)
                samples += len(inputs)
                del loss  # with it, the outputs of all layers would stay until the next step has its own
        self._counted = {"samples": samples, "batches": len(losses)}
        return np.array([float(loss) for loss in losses])

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        """Yield (inputs, labels) of each step, on the device."""
        inputs = self._splits["train"][0]
        if isinstance(inputs, Stream):
            yield from (send_batch(batch, self._device) for batch in inputs.training_batches(feed))
            return
        if feed.order is not None:
            feed = replace(feed, order=self._device.send(feed.order))
        yield from feed.batches(*self._on_device)

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays of training are sent to the device once."""
        super().load(split=split, inputs=inputs, labels=labels)
        if split == "train" and not isinstance(inputs, Stream):
            self._on_device = self._device.send(self._splits[split])
