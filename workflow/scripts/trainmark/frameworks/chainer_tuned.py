"""The tuned loop of Chainer: slices of arrays on the device, compiled updates, and faster dropout masks."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from trainmark.frameworks.chainer_adapter import ChainerAdapter, send_batch
from trainmark.frameworks.chainer_layers import Network, chainer, layer_name
from trainmark.frameworks.chainer_optimizers import set_rates
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture, maximised
from trainmark.networks.ops import Node
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Stream

TUNING = {
    "chainer": {
        "slices": {"text": "a loop of its own over slices of arrays on the device"},
        "checks": {"text": "no checks of types"},
        "fused": {"text": "updates compiled into one loop", "device": "cpu"},
        "masks": {"text": "dropout masks in float32", "device": "cpu", "op": "Dropout"},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
        "kernels": {
            "text": "OpenBLAS's kernels for AVX-512",
            "device": "cpu",
            # OpenBLAS gives CPUs that are newer than itself the kernels for AVX2.
            "avx512_environment": {"OPENBLAS_CORETYPE": "SKYLAKEX"},
        },
    }
}
"""The steps from the stock loop, see `tuning.TuningStep`."""


class TunedNetwork(Network):
    """The network with dropout masks drawn in the dtype of the weights; on the CPU, Chainer draws them in float64."""

    generator: np.random.Generator | None = None
    """Draws the masks of the next steps; None: Chainer draws them."""

    maximised: Collection[str] = ()
    """The convolutions that in training give only the largest output of each filter (`graph.maximised`)."""

    def _output(self, node: Node, inputs: list) -> chainer.Variable:
        if node.name in self.maximised and chainer.config.train and chainer.config.enable_backprop:
            return largest_outputs(getattr(self, layer_name(node.name)), *inputs)
        if node.op != "Dropout" or self.generator is None or self.masks is not None or not chainer.config.train:
            return super()._output(node, inputs)
        rate, dtype = node.attributes["rate"], inputs[0].dtype
        kept = self.generator.random(inputs[0].shape, dtype) >= rate
        return chainer.functions.dropout(inputs[0], mask=kept * dtype.type(1 / (1 - rate)))


def largest_outputs(convolution: chainer.Link, inputs: chainer.Variable) -> chainer.Variable:
    """Return the largest output of each filter of a convolution of sequences, (samples, filters, 1).

    Its gradient is that of one window per filter and not of all.
    """
    with chainer.no_backprop_mode():
        places = convolution(inputs).array.argmax(axis=2)[..., np.newaxis] * convolution.stride
    samples = np.arange(len(places))[:, np.newaxis, np.newaxis]
    windows = chainer.functions.transpose(inputs, (0, 2, 1))[samples, places + np.arange(convolution.W.shape[2])]
    outputs = chainer.functions.einsum("nfsc,fcs->nf", windows, convolution.W)[..., np.newaxis]
    if convolution.b is None:
        return outputs
    return outputs + chainer.functions.broadcast_to(convolution.b[:, np.newaxis], outputs.shape)


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

    def build(self, *, architecture: Architecture, optimizer: Optimizer, device: str, **arguments: Any) -> None:
        self._steps = self._taken({node.op for node in architecture.nodes}, device)
        super().build(architecture=architecture, optimizer=optimizer, device=device, **arguments)
        if "maxima" in self._steps:
            self._network.maximised = maximised(architecture)
        if "fused" in self._steps:
            from trainmark.frameworks.chainer_fused import fuse_updates

            fuse_updates(self._network, optimizer.rule)

    def versions(self) -> dict[str, str]:
        """See `adapter.Adapter.versions`. llvmlite, which compiles updates on the CPU, can be missing for the GPU."""
        return super().versions() | ({"llvmlite": version("llvmlite")} if find_spec("llvmlite") else {})

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        set_rates(self._optimizer, feed.rates)
        if "masks" in self._steps:
            self._network.generator = np.random.Generator(np.random.SFC64(feed.dropout_seed))
        else:
            self._seed_dropout(feed.dropout_seed)
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
        return self._read(losses)

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
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
