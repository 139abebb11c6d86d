"""Builds an architecture with Chainer: each layer type, and the network of them.

Where the originals ran a layer of Chainer's own, it is used unchanged; docs/frameworks.md lists the differences.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from trainmark.frameworks import chainer_compat  # noqa: F401  (before chainer)
from trainmark.networks.graph import Architecture, execute, execution_order
from trainmark.networks.ops import Node, Parameter, Shape

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of a package whose last version is of 2022
    import chainer as chainer  # the other modules of the adapter import it from here
    import chainer.functions as F
    import chainer.links as L


class WordVectors(L.EmbedID):
    """Embeddings in the layout of the architecture: (samples, units, length)."""

    def forward(self, ids: chainer.Variable) -> chainer.Variable:
        """Return the vectors of token ids (samples, length)."""
        return F.transpose(super().forward(ids), (0, 2, 1))


class MaximumOverTime(chainer.FunctionNode):
    """The maximum of each channel of (samples, channels, length). Its gradient goes to one of several equal values.

    Chainer's F.max passes the whole gradient to each of them, and F.max_pooling_1d copies all values twice.
    """

    def forward(self, inputs: tuple) -> tuple:
        """Return the maxima (samples, channels)."""
        (x,) = inputs
        self.retain_inputs((0,))
        self._xp = chainer.backend.get_array_module(x)
        samples, channels, _ = x.shape
        self._places = (self._xp.arange(samples)[:, np.newaxis], self._xp.arange(channels), x.argmax(axis=2))
        return (x[self._places],)

    def backward(self, indexes: tuple, gradients: tuple) -> tuple:
        """Return the gradient of the input, in the input's layout."""
        gradient = self._xp.zeros_like(self.get_retained_inputs()[0].array)
        gradient[self._places] = gradients[0].array
        return (chainer.as_variable(gradient),)


LINKS: Mapping[str, Callable[[Node, Shape], chainer.Link]] = {
    "Dense": lambda node, shape: L.Linear(shape[0], node.integer("units"), nobias=not node.attributes["bias"]),
    "Conv2D": lambda node, shape: L.Convolution2D(shape[0], **_convolution(node)),
    "Conv1D": lambda node, shape: L.Convolution1D(shape[0], **_convolution(node)),
    "Embedding": lambda node, shape: WordVectors(node.integer("vocabulary"), node.integer("units")),
    "BatchNorm": lambda node, shape: L.BatchNormalization(
        shape[0], decay=node.attributes["decay"], eps=node.attributes["epsilon"]
    ),
}
"""Layers with arrays: functions (node, input shape) -> link."""

FUNCTIONS: Mapping[str, Callable[..., chainer.Variable]] = {
    "Flatten": lambda node, x: F.reshape(x, (len(x), -1)),
    "ReLU": lambda node, x: F.relu(x),
    "Dropout": lambda node, x: F.dropout(x, node.attributes["rate"]),
    "LRN": lambda node, x: F.local_response_normalization(
        x, node.integer("n"), node.attributes["k"], node.attributes["alpha"], node.attributes["beta"]
    ),
    "MaxPool2D": lambda node, x: F.max_pooling_2d(x, *_window(node), cover_all=bool(node.attributes["ceil"])),
    "AvgPool2D": lambda node, x: F.average_pooling_2d(x, *_window(node)),
    "GlobalMaxPool1D": lambda node, x: MaximumOverTime().apply((x,))[0],
    "Concat": lambda node, *xs: F.concat(xs, axis=1),
    "Add": lambda node, *xs: F.add(*xs),
    "BinaryLogits": lambda node, x: F.concat((x.xp.zeros_like(x.array), x), axis=1),
}
"""Layers without arrays: functions (node, *inputs) -> output."""

ATTRIBUTES = {
    "kernel": "W",
    "embeddings": "W",
    "bias": "b",
    "gamma": "gamma",
    "beta": "beta",
    "moving_mean": "avg_mean",
    "moving_variance": "avg_var",
}
"""Chainer's attribute of each role of an array."""


def _convolution(node: Node) -> dict:
    window = {"out_channels": node.integer("filters"), "ksize": node.integer("size")}
    return window | {
        "stride": node.integer("stride"),
        "pad": node.integer("padding"),
        "nobias": not node.attributes["bias"],
    }


def _window(node: Node) -> tuple[int, int, int]:
    return node.integer("size"), node.integer("stride"), node.integer("padding")


class Network(chainer.Chain):
    """An architecture of links (layers with arrays) and functions.

    masks: arrays by which the Dropout layers multiply, by node; None: each draws its own.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.masks: dict[str, np.ndarray] | None = None
        self._heads = architecture.heads
        self._execution_orders = {True: execution_order(architecture.nodes, self._heads)}
        self._execution_orders[False] = execution_order(architecture.inference_nodes(), self._heads[:1])
        shapes = architecture.shapes()
        with self.init_scope():
            for node in architecture.nodes:
                if node.op in LINKS:
                    setattr(self, node.name, LINKS[node.op](node, shapes[node.inputs[0]]))

    def forward(self, inputs: np.ndarray) -> list[chainer.Variable]:
        """Return logits (samples, classes): of the main head, and in training also of the auxiliary heads."""
        values = {"input": inputs}
        for _ in self._values(values, release=True):
            pass
        return [values[name] for name in self._heads if name in values]

    def activations(self, inputs: np.ndarray) -> Iterator[tuple[str, chainer.Variable]]:
        """Yield (node, its output) of every layer, in order."""
        return self._values({"input": chainer.Variable(inputs)}, release=False)

    def _values(self, values: dict, release: bool) -> Iterator[tuple[str, chainer.Variable]]:
        return execute(self._execution_orders[chainer.config.train], values, self._output, release)

    def _output(self, node: Node, inputs: list) -> chainer.Variable:
        if node.op in LINKS:
            return getattr(self, node.name)(*inputs)
        if node.op == "Dropout" and self.masks is not None:
            mask = self.masks.get(node.name)
            return inputs[0] if mask is None else F.dropout(inputs[0], mask=mask)
        return FUNCTIONS[node.op](node, *inputs)


def array_of(network: Network, parameter: Parameter) -> Any:
    """Return the array itself, in Chainer's layout and on its device; None if the layer has none."""
    variable = variable_of(network, parameter)
    return getattr(variable, "array", variable)  # running statistics are plain arrays


def variable_of(network: Network, parameter: Parameter) -> Any:
    """Return Chainer's parameter, with its gradient and its update rule."""
    return getattr(getattr(network, parameter.layer), ATTRIBUTES[parameter.role])
