"""Builds an architecture with Chainer: each layer type, and the network of them.

Where the originals ran a layer of Chainer's own, it is used unchanged; docs/frameworks.md lists the differences.
"""

import math
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


class DensePerPosition(L.Linear):
    """A dense layer of the channels at each position of a sequence or an image."""

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        """Return the output with the channels in axis 1, as the input has them."""
        return F.moveaxis(super().forward(F.moveaxis(x, 1, -1), n_batch_axes=x.ndim - 1), -1, 1)


class LayerNorm(L.LayerNormalization):
    """Layer normalisation of the channels at each position; Chainer's own takes vectors alone."""

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        """Return the output with the channels in axis 1, as the input has them."""
        positions = F.moveaxis(x, 1, -1)
        normalised = super().forward(F.reshape(positions, (-1, x.shape[1])))
        return F.moveaxis(F.reshape(normalised, positions.shape), -1, 1)


class OwnArray(chainer.Link):
    """A layer with one array that Chainer lacks.

    role, shape: of the array. compute: function (input, array) -> output.
    """

    def __init__(self, role: str, shape: Shape, compute: Callable[..., chainer.Variable]) -> None:
        super().__init__()
        self._role, self._compute = role, compute
        with self.init_scope():
            setattr(self, role, chainer.Parameter(0, shape))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        """Return the output."""
        return self._compute(x, getattr(self, self._role))


def _product(x: chainer.Variable, factor: chainer.Variable) -> chainer.Variable:
    """Return the product with an array of the same shape, or with a value for each channel (..., channels)."""
    same = factor.shape == x.shape
    return x * (factor if same else F.broadcast_to(F.reshape(factor, (*factor.shape, *[1] * (x.ndim - 2))), x.shape))


def _class_token(x: chainer.Variable, token: chainer.Variable) -> chainer.Variable:
    return F.concat((F.broadcast_to(F.expand_dims(token, 1), (len(x), len(token), 1)), x), axis=2)


def _positions(x: chainer.Variable, positions: chainer.Variable) -> chainer.Variable:
    return x + F.broadcast_to(F.transpose(positions), x.shape)


def _part(x: chainer.Variable, axis: int, start: int, stop: int) -> chainer.Variable:
    """Return a part along an axis. The gradient of Chainer's x[start:stop] is added value by value, which is slow."""
    ends = [end for end in (start, stop) if 0 < end < x.shape[axis]]
    return F.split_axis(x, ends, axis)[int(start > 0)] if ends else x


def attention(node: Node, *inputs: chainer.Variable) -> chainer.Variable:
    """Return scaled dot-product attention, by Chainer's products of matrices and its softmax."""
    heads = node.integer("heads")
    query, key, value = (F.reshape(x, (len(x), heads, -1, x.shape[2])) for x in inputs)
    scores = F.matmul(query, key, transa=True) * query.shape[2] ** -0.5
    if node.attributes["causal"]:
        later = scores.xp.triu(scores.xp.full(scores.shape[2:], -np.inf, scores.dtype), 1)
        scores += F.broadcast_to(later, scores.shape)
    attended = F.matmul(value, F.softmax(scores, axis=3), transb=True)
    return F.reshape(attended, (len(attended), -1, attended.shape[3]))


def gelu(node: Node, x: chainer.Variable) -> chainer.Variable:
    """Return GELU, by erf or by its approximation with tanh."""
    if node.attributes["approximate"]:
        return x * (0.5 * F.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)) + 0.5)
    return x * (0.5 * F.erf(x * math.sqrt(0.5)) + 0.5)


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
    "Dense": lambda node, shape: (DensePerPosition if len(shape) > 1 else L.Linear)(
        shape[0], node.integer("units"), nobias=not node.attributes["bias"]
    ),
    "Conv2D": lambda node, shape: L.Convolution2D(shape[0], **_convolution(node), groups=node.integer("groups")),
    "Conv1D": lambda node, shape: L.Convolution1D(shape[0], **_convolution(node)),
    "Embedding": lambda node, shape: WordVectors(node.integer("vocabulary"), node.integer("units")),
    "BatchNorm": lambda node, shape: L.BatchNormalization(
        shape[0], decay=node.attributes["decay"], eps=node.attributes["epsilon"]
    ),
    "LayerNorm": lambda node, shape: LayerNorm(shape[0], node.attributes["epsilon"]),
    "GroupNorm": lambda node, shape: L.GroupNormalization(
        node.integer("groups"), shape[0], eps=node.attributes["epsilon"]
    ),
    "LayerScale": lambda node, shape: OwnArray("gamma", shape[:1], _product),
    "ClassToken": lambda node, shape: OwnArray("token", shape[:1], _class_token),
    "PositionEmbedding": lambda node, shape: OwnArray("positions", shape[::-1], _positions),
}
"""Layers with arrays: functions (node, input shape) -> link."""

FUNCTIONS: Mapping[str, Callable[..., chainer.Variable]] = {
    "Flatten": lambda node, x: F.reshape(x, (len(x), -1)),
    "ReLU": lambda node, x: F.relu(x),
    "ReLU6": lambda node, x: F.relu6(x),
    "GELU": gelu,
    "SiLU": lambda node, x: x * F.sigmoid(x),
    "Sigmoid": lambda node, x: F.sigmoid(x),
    "Tanh": lambda node, x: F.tanh(x),
    "Softmax": lambda node, x: F.softmax(x, axis=1),
    "Dropout": lambda node, x: F.dropout(x, node.attributes["rate"]),
    "LRN": lambda node, x: F.local_response_normalization(
        x, node.integer("n"), node.attributes["k"], node.attributes["alpha"], node.attributes["beta"]
    ),
    "MaxPool2D": lambda node, x: F.max_pooling_2d(x, *_window(node), cover_all=bool(node.attributes["ceil"])),
    "AvgPool2D": lambda node, x: F.average_pooling_2d(x, *_window(node)),
    "GlobalMaxPool1D": lambda node, x: MaximumOverTime().apply((x,))[0],
    "GlobalAvgPool2D": lambda node, x: F.mean(x, axis=(2, 3)),
    "GlobalAvgPool1D": lambda node, x: F.mean(x, axis=2),
    "Sequence": lambda node, x: F.reshape(x, (*x.shape[:2], -1)),
    "SelectToken": lambda node, x: F.squeeze(_part(x, 2, node.integer("position"), node.integer("position") + 1), 2),
    "SliceChannels": lambda node, x: _part(x, 1, node.integer("start"), node.integer("stop")),
    "Attention": attention,
    "Multiply": lambda node, x, factor: _product(x, factor),
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
    "positions": "positions",
    "token": "token",
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


def layer_name(node: str) -> str:
    """Return the name of the attribute of a Network that is a node's layer. It differs from all that chains have."""
    return f"layer_{node}"


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
                    setattr(self, layer_name(node.name), LINKS[node.op](node, shapes[node.inputs[0]]))

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
            return getattr(self, layer_name(node.name))(*inputs)
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
    return getattr(getattr(network, layer_name(parameter.layer)), ATTRIBUTES[parameter.role])
