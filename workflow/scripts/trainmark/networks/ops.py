"""The layer types of an architecture: what each makes of its input's shape, and which arrays it holds.

Shapes are those of one sample, without the batch axis: images (channels, height, width), sequences
(channels, length), vectors (units,).

Attributes of each op: Dense units, bias; Conv2D and Conv1D filters, size, stride, padding, bias; Embedding vocabulary,
units; BatchNorm epsilon, decay; LRN n, k, alpha, beta; Dropout rate; MaxPool2D and AvgPool2D size, stride, padding,
and MaxPool2D also ceil. See DEFAULTS for what may be left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

Shape = tuple[int, ...]

DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "Dense": {"bias": 1},
    "Conv2D": {"stride": 1, "padding": 0, "bias": 1},
    "Conv1D": {"stride": 1, "padding": 0, "bias": 1},
    # Chainer's max_pooling_2d covers all (ceil); its average_pooling_2d does not.
    "MaxPool2D": {"stride": 1, "padding": 0, "ceil": 1},
    "AvgPool2D": {"stride": 1, "padding": 0},
    # Chainer's defaults: links.BatchNormalization, functions.local_response_normalization.
    "BatchNorm": {"epsilon": 2e-5, "decay": 0.9},
    "LRN": {"n": 5, "k": 2, "alpha": 1e-4, "beta": 0.75},
}
"""Values of attributes that a node need not give, by op."""


@dataclass(frozen=True)
class Parameter:
    """One array of a layer.

    role: what it is to its layer ("kernel", "bias", "embeddings", "gamma", "beta", "moving_mean", "moving_variance").
    shape: of a Dense kernel (inputs, units); of a convolution's (height, width, inputs, filters) or (size, inputs,
    filters); of embeddings (vocabulary, units). fan_in, fan_out: inputs and outputs that each value connects, with
    the receptive field. trained: whether the optimizer changes it; running statistics it does not.
    """

    name: str
    shape: Shape
    role: str
    fan_in: int
    fan_out: int
    trained: bool = True

    @property
    def layer(self) -> str:
        """Name of the node that it belongs to."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Node:
    """One layer: its op (a key of OPS), the names of the nodes that feed it, and the op's attributes.

    Attributes that are not given have the op's DEFAULTS.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", {**DEFAULTS.get(self.op, {}), **self.attributes})

    def whole(self, attribute: str) -> int:
        """An attribute that is a whole number: a size, a count, a flag."""
        return int(self.attributes[attribute])


Shapes = tuple[Shape, ...]
"""Of a node's inputs."""


@dataclass(frozen=True)
class Op:
    """What the graph knows about a layer type.

    output_shape, parameters: from the node and its inputs' shapes. ranks: how many axes an input may have. inputs: how
    many there are at least. flops: floating-point operations of one sample's forward pass, from the node, its inputs'
    shapes and its output's (the convention stands below).
    """

    output_shape: Callable[[Node, Shapes], Shape]
    parameters: Callable[[Node, Shapes], tuple[Parameter, ...]] = lambda node, shapes: ()
    ranks: tuple[int, ...] = (1, 2, 3)
    inputs: int = 1
    flops: Callable[[Node, Shapes, Shape], int] = lambda node, shapes, output: 0


# --- shapes -------------------------------------------------------------------------------------------------------


def _same(node: Node, shapes: Shapes) -> Shape:
    return shapes[0]


def window_count(side: int, size: int, stride: int, padding: int, ceil: bool = False) -> int:
    """Positions of a window along an axis of `side` values with `padding` more on both ends.

    ceil: whether the last window may reach over the end, so that every value is covered (Chainer's `cover_all`,
    chainer/utils/conv.py).
    """
    room = side + 2 * padding - size
    return (-(-room // stride) if ceil else room // stride) + 1


def _window_shape(node: Node, shapes: Shapes) -> Shape:
    """Of a convolution or a pooling: the filters, or the channels as they are, and the windows along each axis."""
    channels, *sides = shapes[0]
    size, stride, padding = (node.whole(name) for name in ("size", "stride", "padding"))
    ceil = bool(node.attributes.get("ceil"))
    counts = [window_count(side, size, stride, padding, ceil) for side in sides]
    if min(counts) < 1:
        raise ValueError(f"layer {node.name!r}: a window of {size} does not fit into {' x '.join(map(str, sides))}")
    return (int(node.attributes.get("filters", channels)), *counts)


def _concatenated(node: Node, shapes: Shapes) -> Shape:
    if len({shape[1:] for shape in shapes}) != 1:
        raise ValueError(f"layer {node.name!r} joins shapes that differ in more than their channels: {shapes}")
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _added(node: Node, shapes: Shapes) -> Shape:
    if len(set(shapes)) != 1:
        raise ValueError(f"layer {node.name!r} adds shapes that differ: {shapes}")
    return shapes[0]


def _binary_logits_shape(node: Node, shapes: Shapes) -> Shape:
    if shapes[0] != (1,):
        raise ValueError(f"layer {node.name!r} takes one logit, not shape {shapes[0]}")
    return (2,)


def _normalized(node: Node, shapes: Shapes) -> Shape:
    if node.whole("n") % 2 == 0:
        # An even window has no middle: Chainer takes n + 1 then, other libraries n.
        raise ValueError(f"layer {node.name!r}: n of LRN must be odd, and is {node.whole('n')}")
    return shapes[0]


# --- parameters ---------------------------------------------------------------------------------------------------


def _kernel_and_bias(node: Node, field_size: int, shape: Shape) -> tuple[Parameter, ...]:
    """Of a layer whose kernel ends in (inputs, outputs); field_size: values of its receptive field a channel."""
    fans = field_size * shape[-2], field_size * shape[-1]
    kernel = Parameter(f"{node.name}.kernel", shape, "kernel", *fans)
    bias = Parameter(f"{node.name}.bias", shape[-1:], "bias", *fans)
    return (kernel, bias) if node.attributes["bias"] else (kernel,)


def _dense_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    return _kernel_and_bias(node, 1, (shapes[0][0], node.whole("units")))


def _convolution_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    channels, *sides = shapes[0]
    window = (node.whole("size"),) * len(sides)
    return _kernel_and_bias(node, prod(window), (*window, channels, node.whole("filters")))


def _embedding_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    vocabulary, units = node.whole("vocabulary"), node.whole("units")
    return (Parameter(f"{node.name}.embeddings", (vocabulary, units), "embeddings", vocabulary, units),)


def _batch_norm_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    channels = shapes[0][0]
    return tuple(
        Parameter(f"{node.name}.{role}", (channels,), role, channels, channels, trained)
        for role, trained in (("gamma", True), ("beta", True), ("moving_mean", False), ("moving_variance", False))
    )


# --- floating-point operations ------------------------------------------------------------------------------------
# Of one sample's forward pass as it is evaluated. A multiply-add counts as two: papers count it as one, and call it a
# FLOP (He et al. 2015, table 1) or an operation (Szegedy et al. 2015), so that theirs are half of the kernels' here.
# Windows count in full where they reach over the image's edge, as those papers have it. Moving values (Flatten, Concat,
# Embedding, BinaryLogits) and dropout, which evaluation leaves out, count nothing.


def _kernel_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """A multiply-add for each value of the kernel at each position of the output, and an addition for each bias."""
    kernel, *bias = OPS[node.op].parameters(node, shapes)
    return 2 * prod(kernel.shape) * prod(output[1:]) + (prod(output) if bias else 0)


def _window_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """One for each value of a pooling's window: a comparison; or an addition, the division in place of the first."""
    values: int = node.whole("size") ** len(output[1:])
    return values * prod(output)


def _lrn_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """Each value: its square, n - 1 additions over the window, times alpha, plus k, a power, the product with it."""
    return (node.whole("n") + 4) * prod(output)


def _flops_a_value(count: int) -> Callable[[Node, Shapes, Shape], int]:
    return lambda node, shapes, output: count * prod(output)


OPS = {
    "Flatten": Op(lambda node, shapes: (prod(shapes[0]),)),
    "Dense": Op(lambda node, shapes: (node.whole("units"),), _dense_parameters, ranks=(1,), flops=_kernel_flops),
    "Conv2D": Op(_window_shape, _convolution_parameters, ranks=(3,), flops=_kernel_flops),
    "Conv1D": Op(_window_shape, _convolution_parameters, ranks=(2,), flops=_kernel_flops),
    # Token ids in, one vector for each of them: (length,) becomes (units, length).
    "Embedding": Op(lambda node, shapes: (node.whole("units"), *shapes[0]), _embedding_parameters, ranks=(1,)),
    # With running statistics: one multiply-add a value, its scale and shift made once for all samples.
    "BatchNorm": Op(_same, _batch_norm_parameters, ranks=(1, 3), flops=_flops_a_value(2)),
    "LRN": Op(_normalized, ranks=(3,), flops=_lrn_flops),
    "ReLU": Op(_same, flops=_flops_a_value(1)),
    "Dropout": Op(_same),
    "MaxPool2D": Op(_window_shape, ranks=(3,), flops=_window_flops),
    "AvgPool2D": Op(_window_shape, ranks=(3,), flops=_window_flops),
    "GlobalMaxPool1D": Op(
        lambda node, shapes: shapes[0][:1], ranks=(2,), flops=lambda node, shapes, output: prod(shapes[0])
    ),
    "Concat": Op(_concatenated, inputs=2),
    "Add": Op(_added, inputs=2, flops=lambda node, shapes, output: (len(shapes) - 1) * prod(output)),
    # One logit z becomes the two logits (0, z): their softmax cross entropy is the sigmoid cross entropy of z.
    "BinaryLogits": Op(_binary_logits_shape, ranks=(1,)),
}

KINDS_OF_INPUT = {1: "a vector", 2: "a sequence (channels, length)", 3: "an image (channels, height, width)"}
"""What an input of so many axes is, in words."""
