"""Interpreting an architecture with Chainer: each layer type, and the network made of them.

Where Chainer's own layer is what the originals ran, it is taken as it is; docs/frameworks.md lists the differences.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from trainmark.frameworks import chainer_compat  # noqa: F401  (before chainer)
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Parameter, Shape

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pkg_resources tells everybody that it is deprecated
    import chainer as chainer  # the other parts of the adapter take it from here
    import chainer.functions as F
    import chainer.links as L


class WordVectors(L.EmbedID):
    """Embeddings in the canonical layout: (samples, units, length)."""

    def forward(self, ids: chainer.Variable) -> chainer.Variable:
        """Vectors of token ids (samples, length)."""
        return F.transpose(super().forward(ids), (0, 2, 1))


LINKS: Mapping[str, Callable[[Node, Shape], chainer.Link]] = {
    "Dense": lambda node, shape: L.Linear(shape[0], node.whole("units"), nobias=not node.attributes["bias"]),
    "Conv2D": lambda node, shape: L.Convolution2D(shape[0], **_convolution(node)),
    "Conv1D": lambda node, shape: L.Convolution1D(shape[0], **_convolution(node)),
    "Embedding": lambda node, shape: WordVectors(node.whole("vocabulary"), node.whole("units")),
    "BatchNorm": lambda node, shape: L.BatchNormalization(
        shape[0], decay=node.attributes["decay"], eps=node.attributes["epsilon"]
    ),
}
"""Layers that hold arrays, from their node and their input's shape."""

FUNCTIONS: Mapping[str, Callable[..., chainer.Variable]] = {
    "Flatten": lambda node, x: F.reshape(x, (len(x), -1)),
    "ReLU": lambda node, x: F.relu(x),
    "Dropout": lambda node, x: F.dropout(x, node.attributes["rate"]),
    "LRN": lambda node, x: F.local_response_normalization(
        x, node.whole("n"), node.attributes["k"], node.attributes["alpha"], node.attributes["beta"]
    ),
    "MaxPool2D": lambda node, x: F.max_pooling_2d(x, *_window(node), cover_all=bool(node.attributes["ceil"])),
    "AvgPool2D": lambda node, x: F.average_pooling_2d(x, *_window(node)),
    # Not F.max, which gives the whole gradient to each of several equal values.
    "GlobalMaxPool1D": lambda node, x: F.squeeze(F.max_pooling_1d(x, x.shape[2]), axis=2),
    "Concat": lambda node, *xs: F.concat(xs, axis=1),
    "Add": lambda node, *xs: F.add(*xs),
    "BinaryLogits": lambda node, x: F.concat((x.xp.zeros_like(x.array), x), axis=1),
}
"""Layers that hold none, from their node and their inputs."""

ATTRIBUTES = {
    "kernel": "W",
    "embeddings": "W",
    "bias": "b",
    "gamma": "gamma",
    "beta": "beta",
    "moving_mean": "avg_mean",
    "moving_variance": "avg_var",
}
"""Chainer's attribute for each role of an array."""

KERNEL_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 2, 0, 1)}
"""Where Chainer has the axes of a kernel, by their number: (units, inputs), (filters, inputs, height, width)."""


def _convolution(node: Node) -> dict:
    """What Chainer's convolutions are made with, beside the input's channels."""
    window = {"out_channels": node.whole("filters"), "ksize": node.whole("size")}
    return window | {
        "stride": node.whole("stride"),
        "pad": node.whole("padding"),
        "nobias": not node.attributes["bias"],
    }


def _window(node: Node) -> tuple[int, int, int]:
    """Size, stride and padding of a pooling."""
    return node.whole("size"), node.whole("stride"), node.whole("padding")


class Network(chainer.Chain):
    """Interprets an architecture: links where a layer holds arrays, functions elsewhere.

    masks: what each Dropout layer multiplies by, by node, where they are given from outside; None: it draws its own.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.masks: dict[str, np.ndarray] | None = None
        self._heads = (architecture.output, *(name for name, _ in architecture.auxiliary))
        self._plans = {True: _plan(architecture.nodes, self._heads)}
        self._plans[False] = _plan(architecture.inference_nodes(), self._heads[:1])
        shapes = architecture.shapes()
        with self.init_scope():
            for node in architecture.nodes:
                if node.op in LINKS:
                    setattr(self, node.name, LINKS[node.op](node, shapes[node.inputs[0]]))

    def forward(self, inputs: np.ndarray) -> list[chainer.Variable]:
        """Logits, each (samples, classes): while training of the main head and the auxiliary ones, else of the main."""
        values = {"input": inputs}
        for _ in self._values(values, release=True):
            pass
        return [values[name] for name in self._heads if name in values]

    def activations(self, inputs: np.ndarray) -> Iterator[tuple[str, chainer.Variable]]:
        """(node, its output) of every layer, in order."""
        return self._values({"input": chainer.Variable(inputs)}, release=False)

    def _values(self, values: dict, release: bool) -> Iterator[tuple[str, chainer.Variable]]:
        for node, last_used in self._plans[chainer.config.train]:
            inputs = [values[name] for name in node.inputs]
            values[node.name] = self._output(node, inputs)
            yield node.name, values[node.name]
            if release:  # else evaluation would hold the outputs of all layers at once
                for name in last_used:
                    del values[name]

    def _output(self, node: Node, inputs: list) -> chainer.Variable:
        if node.op in LINKS:
            return getattr(self, node.name)(*inputs)
        if node.op == "Dropout" and self.masks is not None:
            mask = self.masks.get(node.name)
            return inputs[0] if mask is None else F.dropout(inputs[0], mask=mask)
        return FUNCTIONS[node.op](node, *inputs)


def _plan(nodes: tuple[Node, ...], heads: tuple[str, ...]) -> list[tuple[Node, tuple[str, ...]]]:
    """(node, names of the outputs that nothing needs after it) in order; the heads' outputs are kept."""
    last = {name: node.name for node in nodes for name in node.inputs}
    return [(node, tuple(name for name in last if last[name] == node.name and name not in heads)) for node in nodes]


def array_of(network: Network, parameter: Parameter) -> Any:
    """The array itself, in Chainer's layout, on its device; None where the layer has none."""
    found = getattr(getattr(network, parameter.layer), ATTRIBUTES[parameter.role])
    return getattr(found, "array", found)  # running statistics are no variables


def canonical_shape(parameter: Parameter, array: np.ndarray) -> tuple[int, ...]:
    """The shape of an array of Chainer's in the layout of the architecture."""
    return tuple(array.shape[axis] for axis in np.argsort(_axes(parameter)))


def gradient_of(network: Network, parameter: Parameter) -> np.ndarray:
    """The gradient of a trained array by the last loss, as `array_of` gives the array."""
    return getattr(getattr(network, parameter.layer), ATTRIBUTES[parameter.role]).grad


def to_canonical(parameter: Parameter, array: np.ndarray) -> np.ndarray:
    """A copy of an array of Chainer's, or of its gradient, in the layout of the architecture, on the host."""
    array = chainer.backends.cuda.to_cpu(array)
    return np.array(array.transpose(np.argsort(_axes(parameter))))


def from_canonical(parameter: Parameter, array: np.ndarray) -> np.ndarray:
    """An array in Chainer's layout."""
    return array.transpose(_axes(parameter))


def _axes(parameter: Parameter) -> tuple[int, ...]:
    return KERNEL_AXES[len(parameter.shape)] if parameter.role == "kernel" else tuple(range(len(parameter.shape)))
