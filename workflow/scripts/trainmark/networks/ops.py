"""The layer types of an architecture: their output shapes, arrays and floating-point operations.

Shapes are those of one sample, without the batch axis: images (channels, height, width), sequences (channels, length),
vectors (units,).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from numbers import Real
from typing import NamedTuple

from trainmark.errors import did_you_mean

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """What an attribute of a layer may be.

    allowed: in words.
    holds: function number -> whether it is allowed.
    """

    allowed: str
    holds: Callable[[float], bool]


COUNT = Kind("a whole number, 1 or more", lambda value: value >= 1 and value % 1 == 0)
WINDOW = Kind("one whole number for all sides, 1 or more", COUNT.holds)
PADDING = Kind("one whole number for all sides, 0 or more", lambda value: value >= 0 and value % 1 == 0)
ODD = Kind("an odd number", lambda value: value >= 1 and value % 2 == 1)
"""Of a window with a middle: for an even n, Chainer's LRN takes n + 1, and other libraries n."""
FLAG = Kind("0 or 1", lambda value: value in (0, 1))
SHARE = Kind("a number, 0 to 1", lambda value: 0 <= value <= 1)
BELOW_1 = Kind("a number, 0 or more and below 1", lambda value: 0 <= value < 1)
POSITIVE = Kind("a number above 0", lambda value: value > 0)


class Attribute(NamedTuple):
    """An attribute of a layer type. default: its value where it is omitted; None if it must not be."""

    kind: Kind
    default: float | None = None


Attributes = Mapping[str, Attribute]

BIAS: Attributes = {"bias": Attribute(FLAG, 1)}
WINDOWS: Attributes = {"size": Attribute(WINDOW), "stride": Attribute(WINDOW, 1), "padding": Attribute(PADDING, 0)}
CONVOLUTION: Attributes = {"filters": Attribute(COUNT), **WINDOWS, **BIAS}

ALSO_CALLED = {
    "eps": "epsilon", "p": "rate", "momentum": "decay", "kernel_size": "size", "pool_size": "size", "k_size": "size",
    "out_channels": "filters", "out_features": "units", "embedding_dim": "units", "num_embeddings": "vocabulary",
    "strides": "stride", "ceil_mode": "ceil", "use_bias": "bias", "linear": "Dense", "batchnorm1d": "BatchNorm",
    "localresponsenorm": "LRN", "cat": "Concat", "adaptivemaxpool1d": "GlobalMaxPool1D",
}  # fmt: skip
"""Layers and attributes as PyTorch or Keras call them, in lower case, and as they are called here."""

REMARKS = {
    "momentum": " (decay is 1 - PyTorch's momentum)",
    "activation": "; an activation is a layer of its own, such as ReLU",
    "dilation": "; no layer is dilated",
    "groups": "; no layer has groups",
}
"""What else a message says about an attribute that other libraries have."""


@dataclass(frozen=True)
class Parameter:
    """One array of a layer.

    name: "<layer>.<role>".
    shape: (inputs, units) of a Dense kernel; (height, width, inputs, filters) or (size, inputs, filters) of a
        convolution's kernel; (vocabulary, units) of embeddings; (units,) or (channels,) of others.
    role: "kernel", "bias", "embeddings", "gamma", "beta", "moving_mean" or "moving_variance".
    fan_in, fan_out: number of inputs and outputs that each value connects, including the receptive field.
    trained: whether the optimizer changes the array; False for running statistics.
    """

    name: str
    shape: Shape
    role: str
    fan_in: int
    fan_out: int
    trained: bool = True

    @property
    def layer(self) -> str:
        """Name of the node that the array belongs to."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Node:
    """One layer of an architecture.

    name: its name, unique in the architecture.
    op: its type, a key of OPS.
    inputs: names of the nodes that feed it.
    attributes: those of its op (`Op.attributes`); omitted ones get their defaults.

    Raises ValueError if there is no such op, or if it has no such attribute, lacks one, or does not allow its value.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.op not in OPS:
            hint = did_you_mean(self.op, OPS, ALSO_CALLED)
            raise ValueError(f"layer {self.name!r}: unknown op {self.op!r}; known: {', '.join(OPS)}{hint}")
        known = OPS[self.op].attributes
        for attribute, value in self.attributes.items():
            self._check(attribute, value, known)
        for attribute in known.keys() - self.attributes.keys():
            if known[attribute].default is None:
                raise ValueError(
                    f"layer {self.name!r}: {self.op} lacks {attribute}; allowed: {known[attribute].kind.allowed}"
                )
        defaults = {name: attribute.default for name, attribute in known.items() if attribute.default is not None}
        object.__setattr__(self, "attributes", {**defaults, **self.attributes})

    def _check(self, attribute: str, value: object, known: Attributes) -> None:
        """Raise ValueError if there is no such attribute among the known ones, or if it can't have this value."""
        if attribute not in known:
            hint = did_you_mean(attribute, known, ALSO_CALLED) + REMARKS.get(attribute, "")
            allowed = ", ".join(known) or "no attributes"
            raise ValueError(f"layer {self.name!r}: {self.op} has no {attribute}; allowed: {allowed}{hint}")
        kind = known[attribute].kind
        if not (isinstance(value, Real) and isfinite(value) and kind.holds(float(value))):
            raise ValueError(f"layer {self.name!r}: {attribute} of {self.op} is {value!r}; allowed: {kind.allowed}")

    def integer(self, attribute: str) -> int:
        """Return an attribute that is an integer: a size, a count or a flag."""
        return int(self.attributes[attribute])


Shapes = tuple[Shape, ...]
"""Shapes of a node's inputs."""


@dataclass(frozen=True)
class Op:
    """A layer type.

    output_shape: function (node, input shapes) -> output shape.
    attributes: its attributes, by name.
    parameters: function (node, input shapes) -> arrays of the layer.
    ranks: allowed numbers of axes of an input.
    inputs: minimum number of inputs.
    flops: function (node, input shapes, output shape) -> floating-point operations of one sample's forward pass. The
        convention is below.
    """

    output_shape: Callable[[Node, Shapes], Shape]
    attributes: Attributes = field(default_factory=dict)
    parameters: Callable[[Node, Shapes], tuple[Parameter, ...]] = lambda node, shapes: ()
    ranks: tuple[int, ...] = (1, 2, 3)
    inputs: int = 1
    flops: Callable[[Node, Shapes, Shape], int] = lambda node, shapes, output: 0


# --- shapes -------------------------------------------------------------------------------------------------------


def _same_shape(node: Node, shapes: Shapes) -> Shape:
    return shapes[0]


def window_count(side: int, size: int, stride: int, padding: int, ceil: bool = False) -> int:
    """Return the number of window positions along an axis of `side` values with `padding` more at both ends.

    ceil: let the last window extend beyond the end, so that every value is covered (Chainer's `cover_all`,
        chainer/utils/conv.py).
    """
    room = side + 2 * padding - size
    return (-(-room // stride) if ceil else room // stride) + 1


def _window_shape(node: Node, shapes: Shapes) -> Shape:
    """Return the output shape of a convolution or pooling: (filters or channels, windows along each axis)."""
    channels, *sides = shapes[0]
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    ceil = bool(node.attributes.get("ceil"))
    counts = [window_count(side, size, stride, padding, ceil) for side in sides]
    if min(counts) < 1:
        raise ValueError(f"layer {node.name!r}: a window of {size} does not fit into {' x '.join(map(str, sides))}")
    return (int(node.attributes.get("filters", channels)), *counts)


def _concatenated_shape(node: Node, shapes: Shapes) -> Shape:
    if len({shape[1:] for shape in shapes}) != 1:
        raise ValueError(f"layer {node.name!r} joins shapes that differ in more than their channels: {shapes}")
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _sum_shape(node: Node, shapes: Shapes) -> Shape:
    if len(set(shapes)) != 1:
        raise ValueError(f"layer {node.name!r} adds shapes that differ: {shapes}")
    return shapes[0]


def _binary_logits_shape(node: Node, shapes: Shapes) -> Shape:
    if shapes[0] != (1,):
        raise ValueError(f"layer {node.name!r} takes one logit, not shape {shapes[0]}")
    return (2,)


# --- parameters ---------------------------------------------------------------------------------------------------


def _kernel_and_bias(node: Node, field_size: int, shape: Shape) -> tuple[Parameter, ...]:
    """Return kernel and bias of a layer whose kernel shape ends in (inputs, outputs).

    field_size: number of values of the receptive field per channel.
    """
    fans = field_size * shape[-2], field_size * shape[-1]
    kernel = Parameter(f"{node.name}.kernel", shape, "kernel", *fans)
    bias = Parameter(f"{node.name}.bias", shape[-1:], "bias", *fans)
    return (kernel, bias) if node.attributes["bias"] else (kernel,)


def _dense_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    return _kernel_and_bias(node, 1, (shapes[0][0], node.integer("units")))


def _convolution_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    channels, *sides = shapes[0]
    window = (node.integer("size"),) * len(sides)
    return _kernel_and_bias(node, prod(window), (*window, channels, node.integer("filters")))


def _embedding_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    vocabulary, units = node.integer("vocabulary"), node.integer("units")
    return (Parameter(f"{node.name}.embeddings", (vocabulary, units), "embeddings", vocabulary, units),)


def _batch_norm_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    channels = shapes[0][0]
    return tuple(
        Parameter(f"{node.name}.{role}", (channels,), role, channels, channels, trained)
        for role, trained in (("gamma", True), ("beta", True), ("moving_mean", False), ("moving_variance", False))
    )


# --- floating-point operations ------------------------------------------------------------------------------------
# Counts are of one sample's forward pass in evaluation. A multiply-add counts as two operations. Papers count it as one
# and call it a FLOP (He et al. 2015, table 1) or an operation (Szegedy et al. 2015), so their numbers are half of the
# kernels' here. Windows that extend beyond the edge of the image count in full, as in those papers. Moving values
# (Flatten, Concat, Embedding, BinaryLogits) and dropout, which evaluation omits, count as 0.


def _kernel_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """Count a multiply-add for each kernel value at each output position, and an addition for each bias."""
    kernel, *bias = OPS[node.op].parameters(node, shapes)
    return 2 * prod(kernel.shape) * prod(output[1:]) + (prod(output) if bias else 0)


def _window_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """Count one operation per value of a pooling window: comparisons, or additions and a division."""
    values: int = node.integer("size") ** len(output[1:])
    return values * prod(output)


def _lrn_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """Count per value: a square, n - 1 additions over the window, times alpha, plus k, a power, and a product."""
    return (node.integer("n") + 4) * prod(output)


def _flops_per_value(count: int) -> Callable[[Node, Shapes, Shape], int]:
    return lambda node, shapes, output: count * prod(output)


OPS: Mapping[str, Op] = {
    "Flatten": Op(lambda node, shapes: (prod(shapes[0]),)),
    "Dense": Op(
        lambda node, shapes: (node.integer("units"),),
        {"units": Attribute(COUNT), **BIAS},
        _dense_parameters,
        ranks=(1,),
        flops=_kernel_flops,
    ),
    "Conv2D": Op(_window_shape, CONVOLUTION, _convolution_parameters, ranks=(3,), flops=_kernel_flops),
    "Conv1D": Op(_window_shape, CONVOLUTION, _convolution_parameters, ranks=(2,), flops=_kernel_flops),
    # One vector for each token id: (length,) becomes (units, length).
    "Embedding": Op(
        lambda node, shapes: (node.integer("units"), *shapes[0]),
        {"vocabulary": Attribute(COUNT), "units": Attribute(COUNT)},
        _embedding_parameters,
        ranks=(1,),
    ),
    # Its defaults and those of LRN are Chainer's: links.BatchNormalization, functions.local_response_normalization.
    # FLOPs with running statistics: one multiply-add per value; scale and shift are computed once for all samples.
    "BatchNorm": Op(
        _same_shape,
        {"epsilon": Attribute(POSITIVE, 2e-5), "decay": Attribute(SHARE, 0.9)},
        _batch_norm_parameters,
        ranks=(1, 3),
        flops=_flops_per_value(2),
    ),
    "LRN": Op(
        _same_shape,
        {
            "n": Attribute(ODD, 5),
            "k": Attribute(POSITIVE, 2),
            "alpha": Attribute(POSITIVE, 1e-4),
            "beta": Attribute(POSITIVE, 0.75),
        },
        ranks=(3,),
        flops=_lrn_flops,
    ),
    "ReLU": Op(_same_shape, flops=_flops_per_value(1)),
    "Dropout": Op(_same_shape, {"rate": Attribute(BELOW_1)}),
    # Chainer's max_pooling_2d covers the whole input (ceil); its average_pooling_2d does not.
    "MaxPool2D": Op(_window_shape, {**WINDOWS, "ceil": Attribute(FLAG, 1)}, ranks=(3,), flops=_window_flops),
    "AvgPool2D": Op(_window_shape, WINDOWS, ranks=(3,), flops=_window_flops),
    "GlobalMaxPool1D": Op(
        lambda node, shapes: shapes[0][:1], ranks=(2,), flops=lambda node, shapes, output: prod(shapes[0])
    ),
    "Concat": Op(_concatenated_shape, inputs=2),
    "Add": Op(_sum_shape, inputs=2, flops=lambda node, shapes, output: (len(shapes) - 1) * prod(output)),
    # One logit z becomes the two logits (0, z): their softmax cross entropy is the sigmoid cross entropy of z.
    "BinaryLogits": Op(_binary_logits_shape, ranks=(1,)),
}

KINDS_OF_INPUT = {1: "a vector", 2: "a sequence (channels, length)", 3: "an image (channels, height, width)"}
"""Names of inputs by their number of axes."""
