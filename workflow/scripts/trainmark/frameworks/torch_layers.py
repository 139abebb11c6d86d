"""Builds an architecture with torch: each layer type, and the network of them.

The layers are those of torch.nn where they compute what the architecture defines; docs/frameworks.md lists the
differences.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any

import torch
from torch.nn import functional as F

from trainmark.networks.graph import Architecture, execute, execution_order
from trainmark.networks.ops import Node, Parameter, Shape, window_count


class Operation(torch.nn.Module):
    """A layer without arrays that torch.nn lacks."""

    def __init__(self, compute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._compute = compute

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the output for the inputs of the node."""
        return self._compute(*inputs)


class PerPosition(torch.nn.Module):
    """A mixin for a layer of vectors that takes them from the channels of each position of a sequence or an image.

    Only the order of the axes changes: the values stay where they are if the layers before and after do the same.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the output with the channels in axis 1, as the input has them."""
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


class DensePerPosition(PerPosition, torch.nn.Linear):
    """A dense layer of the channels at each position."""


class NormPerPosition(PerPosition, torch.nn.LayerNorm):
    """Layer normalisation of the channels at each position."""


class OwnArray(torch.nn.Module):
    """A layer with one array that torch.nn lacks.

    role, shape: of the array. compute: function (input, array) -> output.
    """

    def __init__(self, role: str, shape: Shape, compute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._role, self._compute = role, compute
        self.register_parameter(role, torch.nn.Parameter(torch.empty(shape)))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return self._compute(input, getattr(self, self._role))


class WordVectors(torch.nn.Embedding):
    """Embeddings in the layout of the architecture: (samples, units, length)."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the vectors of token ids (samples, length)."""
        return super().forward(input).transpose(1, 2)


class TakesOneValue(torch.nn.Module):
    """A mixin for a batch normalisation: in training, torch's own refuses a batch of one value per channel.

    The mean is then the value itself and the variance 0, biased or not, as in Chainer.
    """

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    momentum: Any
    eps: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise by the batch's statistics in training, otherwise by the running statistics."""
        if not self.training or input.numel() > input.shape[1]:
            return super().forward(input)
        self.running_mean.lerp_(input.detach().flatten(), self.momentum)
        self.running_var.mul_(1 - self.momentum)
        scale, offset = (array.view(-1, *[1] * (input.dim() - 2)) for array in (self.weight, self.bias))
        return scale * (input - input) * self.eps**-0.5 + offset


class VectorBatchNorm(TakesOneValue, torch.nn.BatchNorm1d):
    """Batch normalisation of vectors."""


class ImageBatchNorm(TakesOneValue, torch.nn.BatchNorm2d):
    """Batch normalisation of images."""


def _window(node: Node) -> tuple[int, int, int]:
    return node.integer("size"), node.integer("stride"), node.integer("padding")


def convolution(layer: Callable[..., torch.nn.Module], node: Node, shape: Shape) -> torch.nn.Module:
    """Return a convolution. layer: torch.nn.Conv1d or Conv2d, or a class derived from them."""
    options = {"groups": int(node.attributes.get("groups", 1)), "bias": bool(node.attributes["bias"])}
    return layer(shape[0], node.integer("filters"), *_window(node), **options)


def _pool(node: Node, shape: Shape, pool: Callable[..., torch.nn.Module], padding_value: float) -> torch.nn.Module:
    """Return a pooling. Padding that torch's own does not take is a layer before it.

    Its own padding is at most half a window, and with ceil_mode it has no window that lies wholly in padding.
    """
    size, stride, padding = _window(node)
    ceil = bool(node.attributes.get("ceil"))
    starts = [(window_count(side, size, stride, padding, ceil) - 1) * stride - padding for side in shape[1:]]
    if 2 * padding <= size and all(start < side for start, side in zip(starts, shape[1:], strict=True)):
        return pool(size, stride, padding, ceil_mode=ceil)
    bottom, right = (max(0, start + size - side) for start, side in zip(starts, shape[1:], strict=True))
    pads = torch.nn.ConstantPad2d((padding, right, padding, bottom), padding_value)
    return torch.nn.Sequential(pads, pool(size, stride))


def _batch_norm(node: Node, shape: Shape) -> torch.nn.Module:
    layer = ImageBatchNorm if len(shape) == 3 else VectorBatchNorm
    return layer(shape[0], node.attributes["epsilon"], 1 - node.attributes["decay"])


def attention(node: Node, shape: Shape) -> torch.nn.Module:
    """Return scaled dot-product attention of torch, whose heads are views of the channels."""
    heads, causal = node.integer("heads"), bool(node.attributes["causal"])

    def compute(*inputs: torch.Tensor) -> torch.Tensor:
        query, key, value = (x.unflatten(1, (heads, -1)).transpose(2, 3) for x in inputs)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return attended.transpose(1, 2).flatten(2).transpose(1, 2)

    return Operation(compute)


def _dense(node: Node, shape: Shape) -> torch.nn.Module:
    layer = DensePerPosition if len(shape) > 1 else torch.nn.Linear
    return layer(shape[0], node.integer("units"), bool(node.attributes["bias"]))


def _class_token(input: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Return the longer sequence, in the memory position by position, as layers of each position take it."""
    return torch.cat([token.expand(len(input), 1, -1), input.movedim(1, -1)], 1).movedim(-1, 1)


def _product(input: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return the product with an array of the same shape, or with a value for each channel (..., channels)."""
    return input * (factor if factor.dim() == input.dim() else factor[(..., *[None] * (input.dim() - 2))])


MakeLayer = Callable[[Node, Shape], torch.nn.Module]
"""A function (node, shape of its first input) -> layer."""

LAYERS: Mapping[str, MakeLayer] = {
    "Flatten": lambda node, shape: torch.nn.Flatten(),
    "Dense": _dense,
    "Conv2D": lambda node, shape: convolution(torch.nn.Conv2d, node, shape),
    "Conv1D": lambda node, shape: convolution(torch.nn.Conv1d, node, shape),
    "Embedding": lambda node, shape: WordVectors(node.integer("vocabulary"), node.integer("units")),
    "BatchNorm": _batch_norm,
    "LRN": lambda node, shape: torch.nn.LocalResponseNorm(  # torch divides alpha by n
        node.integer("n"), node.attributes["alpha"] * node.integer("n"), node.attributes["beta"], node.attributes["k"]
    ),
    "LayerNorm": lambda node, shape: (NormPerPosition if len(shape) > 1 else torch.nn.LayerNorm)(
        shape[0], node.attributes["epsilon"]
    ),
    "GroupNorm": lambda node, shape: torch.nn.GroupNorm(node.integer("groups"), shape[0], node.attributes["epsilon"]),
    "LayerScale": lambda node, shape: OwnArray("gamma", shape[:1], _product),
    "ReLU": lambda node, shape: torch.nn.ReLU(),
    "ReLU6": lambda node, shape: torch.nn.ReLU6(),
    "GELU": lambda node, shape: torch.nn.GELU("tanh" if node.attributes["approximate"] else "none"),
    "SiLU": lambda node, shape: torch.nn.SiLU(),
    "Sigmoid": lambda node, shape: torch.nn.Sigmoid(),
    "Tanh": lambda node, shape: torch.nn.Tanh(),
    "Softmax": lambda node, shape: torch.nn.Softmax(1),
    "Dropout": lambda node, shape: torch.nn.Dropout(node.attributes["rate"]),
    "MaxPool2D": lambda node, shape: _pool(node, shape, torch.nn.MaxPool2d, -torch.inf),
    "AvgPool2D": lambda node, shape: _pool(node, shape, torch.nn.AvgPool2d, 0.0),
    "GlobalMaxPool1D": lambda node, shape: torch.nn.Sequential(torch.nn.AdaptiveMaxPool1d(1), torch.nn.Flatten()),
    "GlobalAvgPool2D": lambda node, shape: torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
    "GlobalAvgPool1D": lambda node, shape: torch.nn.Sequential(torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()),
    "Sequence": lambda node, shape: torch.nn.Flatten(2),
    "ClassToken": lambda node, shape: OwnArray("token", shape[:1], _class_token),
    "PositionEmbedding": lambda node, shape: OwnArray("positions", shape[::-1], lambda x, positions: x + positions.T),
    "SelectToken": lambda node, shape: Operation(lambda x: x[:, :, node.integer("position")]),
    "SliceChannels": lambda node, shape: Operation(lambda x: x[:, node.integer("start") : node.integer("stop")]),
    "Attention": attention,
    "Multiply": lambda node, shape: Operation(_product),
    "Concat": lambda node, shape: Operation(lambda *xs: torch.cat(xs, 1)),
    "Add": lambda node, shape: Operation(lambda *xs: reduce(add, xs)),
    "BinaryLogits": lambda node, shape: Operation(lambda x: F.pad(x, (1, 0))),
}
"""The layers of the stock loop, by type."""

ATTRIBUTES = {
    "kernel": "weight",
    "embeddings": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
"""torch's attribute of each role of an array; an OwnArray has the role itself."""


class Network(torch.nn.Module):
    """An architecture of torch's layers. Its arrays are not initialised.

    table: the layers, as LAYERS.
    masks: arrays by which the Dropout layers multiply in training, by node; None: each draws its own.
    """

    def __init__(
        self, architecture: Architecture, dtype: torch.dtype, device: torch.device, table: Mapping[str, MakeLayer]
    ) -> None:
        super().__init__()
        self.masks: dict[str, torch.Tensor] | None = None
        self._heads = architecture.heads
        self._execution_orders = {True: execution_order(architecture.nodes, self._heads)}
        self._execution_orders[False] = execution_order(architecture.inference_nodes(), self._heads[:1])
        shapes = architecture.shapes()
        with torch.device("meta"):  # without memory, so that torch draws no initial weights
            layers = [table[node.op](node, shapes[node.inputs[0]]) for node in architecture.nodes]
        self.layers = torch.nn.ModuleList(layers).to(dtype).to_empty(device=device)
        self._by_node = dict(zip((node.name for node in architecture.nodes), self.layers, strict=True))
        for buffer in self.buffers():  # not all of them are arrays of the architecture: batches are counted
            buffer.zero_()

    def forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """Return logits (samples, classes): of the main head, and in training also of the auxiliary heads."""
        values = {"input": inputs}
        for _ in self._values(values, release=True):
            pass
        return [values[name] for name in self._heads if name in values]

    def activations(self, inputs: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield (node, its output) of every layer, in order."""
        return self._values({"input": inputs}, release=False)

    def _values(self, values: dict, release: bool) -> Iterator[tuple[str, torch.Tensor]]:
        return execute(self._execution_orders[self.training], values, self._output, release)

    def _output(self, node: Node, inputs: list[torch.Tensor]) -> torch.Tensor:
        if node.op == "Dropout" and self.masks is not None:
            masked = self.training and node.name in self.masks
            return inputs[0] * self.masks[node.name] if masked else inputs[0]
        return self._by_node[node.name](*inputs)

    def layer(self, name: str) -> Any:
        """Return the layer of a node."""
        return self._by_node[name]

    def array_of(self, parameter: Parameter) -> Any:
        """Return the array itself, in torch's layout and on its device; None if the layer has none."""
        layer = self.layer(parameter.layer)
        return getattr(layer, parameter.role if isinstance(layer, OwnArray) else ATTRIBUTES[parameter.role], None)
