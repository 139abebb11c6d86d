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
PLACE = Kind("a whole number, 0 or more", PADDING.holds)
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
NORMALISATION: Attributes = {"epsilon": Attribute(POSITIVE, 1e-5)}

ALSO_CALLED = {
    "eps": "epsilon", "p": "rate", "momentum": "decay", "kernel_size": "size", "pool_size": "size", "k_size": "size",
    "out_channels": "filters", "out_features": "units", "embedding_dim": "units", "num_embeddings": "vocabulary",
    "strides": "stride", "ceil_mode": "ceil", "use_bias": "bias", "linear": "Dense", "batchnorm1d": "BatchNorm",
    "localresponsenorm": "LRN", "cat": "Concat", "adaptivemaxpool1d": "GlobalMaxPool1D", "num_groups": "groups",
    "num_heads": "heads", "swish": "SiLU", "adaptiveavgpool2d": "GlobalAvgPool2D", "mul": "Multiply",
    "multiheadattention": "Attention", "is_causal": "causal",
}  # fmt: skip
"""Layers and attributes as PyTorch or Keras call them, in lower case, and as they are called here."""

REMARKS = {
    "momentum": " (decay is 1 - PyTorch's momentum)",
    "activation": "; an activation is a layer of its own, such as ReLU",
    "dilation": "; no layer is dilated",
    "groups": "; of the convolutions, Conv2D alone has groups",
    "scale": "; attention divides by the root of a head's units",
}
"""What else a message says about an attribute that other libraries have."""


@dataclass(frozen=True)
class Parameter:
    """One array of a layer.

    name: "<layer>.<role>".
    shape: (inputs, units) of a Dense kernel; (height, width, inputs / groups, filters) or (size, inputs, filters) of a
        convolution's kernel; (vocabulary, units) of embeddings; (length, units) of positions; (units,) or (channels,)
        of others.
    role: "kernel", "bias", "embeddings", "positions", "token", "gamma", "beta", "moving_mean" or "moving_variance".
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

    Raises ValueError if there is no such op, if it takes another number of inputs, or if it has no such attribute,
    lacks one, or does not allow its value.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.op not in OPS:
            hint = did_you_mean(self.op, OPS, ALSO_CALLED)
            raise ValueError(f"layer {self.name!r}: unknown op {self.op!r}; known: {', '.join(OPS)}{hint}")
        known, least, most = OPS[self.op].attributes, OPS[self.op].inputs, OPS[self.op].most_inputs
        if self.inputs and not least <= len(self.inputs) <= (most or len(self.inputs)):
            count = f"at least {least}" if most is None else most
            raise ValueError(f"layer {self.name!r}: {self.op} takes {count} input{'s' * (count != 1)}")
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
    inputs, most_inputs: least and most number of inputs; None: any.
    flops: function (node, input shapes, output shape) -> floating-point operations of one sample's forward pass. The
        convention is below.
    """

    output_shape: Callable[[Node, Shapes], Shape]
    attributes: Attributes = field(default_factory=dict)
    parameters: Callable[[Node, Shapes], tuple[Parameter, ...]] = lambda node, shapes: ()
    ranks: tuple[int, ...] = (1, 2, 3)
    inputs: int = 1
    most_inputs: int | None = 1
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
    filters, groups = int(node.attributes.get("filters", channels)), int(node.attributes.get("groups", 1))
    if channels % groups or filters % groups:
        raise ValueError(
            f"layer {node.name!r}: {groups} groups divide {channels} channels and {filters} filters unevenly"
        )
    return (filters, *counts)


def _concatenated_shape(node: Node, shapes: Shapes) -> Shape:
    if len({shape[1:] for shape in shapes}) != 1:
        raise ValueError(f"layer {node.name!r} joins shapes that differ in more than their channels: {shapes}")
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _sum_shape(node: Node, shapes: Shapes) -> Shape:
    if len(set(shapes)) != 1:
        raise ValueError(f"layer {node.name!r} adds shapes that differ: {shapes}")
    return shapes[0]


def _product_shape(node: Node, shapes: Shapes) -> Shape:
    if shapes[1] not in (shapes[0], shapes[0][:1]):
        raise ValueError(
            f"layer {node.name!r} multiplies the shape {shapes[0]} by {shapes[1]}; allowed: the same shape, or a "
            "vector with a value for each channel"
        )
    return shapes[0]


def _grouped_shape(node: Node, shapes: Shapes) -> Shape:
    channels, groups = shapes[0][0], node.integer("groups")
    if channels % groups:
        raise ValueError(f"layer {node.name!r}: {groups} groups divide {channels} channels unevenly")
    return shapes[0]


def _attention_shape(node: Node, shapes: Shapes) -> Shape:
    query, key, value = shapes
    heads = node.integer("heads")
    if query[0] != key[0] or key[1] != value[1]:
        raise ValueError(
            f"layer {node.name!r} takes queries and keys of as many units, and as many keys as values, not the shapes "
            f"{query}, {key} and {value}"
        )
    if query[0] % heads or value[0] % heads:
        raise ValueError(f"layer {node.name!r}: {heads} heads divide {query[0]} and {value[0]} units unevenly")
    if node.attributes["causal"] and query[1] != key[1]:
        raise ValueError(f"layer {node.name!r} is causal, so it takes as many queries as keys")
    return (value[0], query[1])


def _slice_shape(node: Node, shapes: Shapes) -> Shape:
    start, stop = node.integer("start"), node.integer("stop")
    if not start < stop <= shapes[0][0]:
        raise ValueError(f"layer {node.name!r} takes channels {start} to {stop - 1} of {shapes[0][0]}")
    return (stop - start, *shapes[0][1:])


def _token_shape(node: Node, shapes: Shapes) -> Shape:
    units, length = shapes[0]
    if (position := node.integer("position")) >= length:
        raise ValueError(f"layer {node.name!r} selects position {position} of a sequence of {length}, counted from 0")
    return (units,)


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
    inputs = channels // int(node.attributes.get("groups", 1))
    return _kernel_and_bias(node, prod(window), (*window, inputs, node.integer("filters")))


def _embedding_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    vocabulary, units = node.integer("vocabulary"), node.integer("units")
    return (Parameter(f"{node.name}.embeddings", (vocabulary, units), "embeddings", vocabulary, units),)


def _per_channel(**roles: bool) -> Callable[[Node, Shapes], tuple[Parameter, ...]]:
    """Return a function that gives arrays with a value for each channel. roles: whether each is trained."""

    def parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
        channels = shapes[0][0]
        return tuple(
            Parameter(f"{node.name}.{role}", (channels,), role, channels, channels, trained)
            for role, trained in roles.items()
        )

    return parameters


def _position_parameters(node: Node, shapes: Shapes) -> tuple[Parameter, ...]:
    units, length = shapes[0]
    return (Parameter(f"{node.name}.positions", (length, units), "positions", length, units),)


# --- floating-point operations ------------------------------------------------------------------------------------
# Counts are of one sample's forward pass in evaluation. A multiply-add counts as two operations. Papers count it as one
# and call it a FLOP (He et al. 2015, table 1) or an operation (Szegedy et al. 2015), so their numbers are half of the
# kernels' here. An elementary function counts as one operation. Windows that extend beyond the edge of the image count
# in full, as in those papers. Moving values (Flatten, Concat, Embedding, Sequence, SelectToken, ...) and dropout, which
# evaluation omits, count as 0.


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


def _attention_flops(node: Node, shapes: Shapes, output: Shape) -> int:
    """Count a multiply-add for each product, and per score: the scale, an exponential, a sum, and a division."""
    (units, queries), (_, keys), (values, _) = shapes
    return (2 * (units + values) + 4 * node.integer("heads")) * queries * keys


def _flops_per_value(count: int) -> Callable[[Node, Shapes, Shape], int]:
    return lambda node, shapes, output: count * prod(output)


def _pooled_over_all(rank: int) -> Op:
    """Return a pooling over all positions of an input with so many axes."""
    return Op(lambda node, shapes: shapes[0][:1], ranks=(rank,), flops=lambda node, shapes, output: prod(shapes[0]))


OPS: Mapping[str, Op] = {
    "Flatten": Op(lambda node, shapes: (prod(shapes[0]),)),
    # Of a sequence or an image: of the channels at each position, as in Keras, Flax and torch.
    "Dense": Op(
        lambda node, shapes: (node.integer("units"), *shapes[0][1:]),
        {"units": Attribute(COUNT), **BIAS},
        _dense_parameters,
        flops=_kernel_flops,
    ),
    "Conv2D": Op(
        _window_shape,
        {**CONVOLUTION, "groups": Attribute(COUNT, 1)},
        _convolution_parameters,
        ranks=(3,),
        flops=_kernel_flops,
    ),
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
        _per_channel(gamma=True, beta=True, moving_mean=False, moving_variance=False),
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
    # Over the channels of each position (Ba et al. 2016, arXiv:1607.06450). FLOPs: mean 1, difference 1, variance 2,
    # product with the inverse root 1, scale and shift 2.
    "LayerNorm": Op(_same_shape, NORMALISATION, _per_channel(gamma=True, beta=True), flops=_flops_per_value(7)),
    # Over the positions and the channels of a group (Wu and He 2018, arXiv:1803.08494).
    "GroupNorm": Op(
        _grouped_shape,
        {"groups": Attribute(COUNT), **NORMALISATION},
        _per_channel(gamma=True, beta=True),
        ranks=(2, 3),
        flops=_flops_per_value(7),
    ),
    # A trained factor for each channel (Touvron et al. 2021, arXiv:2103.17239, section 2).
    "LayerScale": Op(_same_shape, {}, _per_channel(gamma=True), flops=_flops_per_value(1)),
    "ReLU": Op(_same_shape, flops=_flops_per_value(1)),
    "ReLU6": Op(_same_shape, flops=_flops_per_value(2)),
    # x times the normal distribution's function of x (Hendrycks and Gimpel 2016, arXiv:1606.08415), by erf or, if
    # approximate, by their formula with tanh.
    "GELU": Op(
        _same_shape,
        {"approximate": Attribute(FLAG, 0)},
        flops=lambda node, shapes, output: (9 if node.attributes["approximate"] else 5) * prod(output),
    ),
    "SiLU": Op(_same_shape, flops=_flops_per_value(4)),
    "Sigmoid": Op(_same_shape, flops=_flops_per_value(3)),
    "Tanh": Op(_same_shape, flops=_flops_per_value(1)),
    # Over the channels of each position.
    "Softmax": Op(_same_shape, flops=_flops_per_value(3)),
    "Dropout": Op(_same_shape, {"rate": Attribute(BELOW_1)}),
    # Chainer's max_pooling_2d covers the whole input (ceil); its average_pooling_2d does not.
    "MaxPool2D": Op(_window_shape, {**WINDOWS, "ceil": Attribute(FLAG, 1)}, ranks=(3,), flops=_window_flops),
    "AvgPool2D": Op(_window_shape, WINDOWS, ranks=(3,), flops=_window_flops),
    "GlobalMaxPool1D": _pooled_over_all(2),
    "GlobalAvgPool2D": _pooled_over_all(3),
    "GlobalAvgPool1D": _pooled_over_all(2),
    # An image (channels, height, width) becomes the sequence of its positions, row by row.
    "Sequence": Op(lambda node, shapes: (shapes[0][0], prod(shapes[0][1:])), ranks=(3,)),
    # A trained vector before the sequence, and a trained vector added at each position (Dosovitskiy et al. 2020,
    # arXiv:2010.11929, equation 1).
    "ClassToken": Op(lambda node, shapes: (shapes[0][0], shapes[0][1] + 1), {}, _per_channel(token=True), ranks=(2,)),
    "PositionEmbedding": Op(_same_shape, {}, _position_parameters, ranks=(2,), flops=_flops_per_value(1)),
    "SelectToken": Op(_token_shape, {"position": Attribute(PLACE, 0)}, ranks=(2,)),
    "SliceChannels": Op(_slice_shape, {"start": Attribute(PLACE, 0), "stop": Attribute(COUNT)}),
    # Of queries, keys and values, which heads divide by units: softmax(q k / sqrt(units of a head)) v (Vaswani et al.
    # 2017, arXiv:1706.03762, section 3.2). causal: a query takes the keys up to its own position.
    "Attention": Op(
        _attention_shape,
        {"heads": Attribute(COUNT), "causal": Attribute(FLAG, 0)},
        ranks=(2,),
        inputs=3,
        most_inputs=3,
        flops=_attention_flops,
    ),
    "Concat": Op(_concatenated_shape, inputs=2, most_inputs=None),
    "Add": Op(
        _sum_shape, inputs=2, most_inputs=None, flops=lambda node, shapes, output: (len(shapes) - 1) * prod(output)
    ),
    # By the same shape, or by a value for each channel (Hu et al. 2017, arXiv:1709.01507, equation 4).
    "Multiply": Op(_product_shape, ranks=(1, 2, 3), inputs=2, most_inputs=2, flops=_flops_per_value(1)),
    # One logit z becomes the two logits (0, z): their softmax cross entropy is the sigmoid cross entropy of z.
    "BinaryLogits": Op(_binary_logits_shape, ranks=(1,)),
}

KINDS_OF_INPUT = {1: "a vector", 2: "a sequence (channels, length)", 3: "an image (channels, height, width)"}
"""Names of inputs by their number of axes."""
