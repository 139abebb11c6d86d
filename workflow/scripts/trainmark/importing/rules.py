"""Which layers of a graph compute what an operation of PyTorch computes: a table of functions, by its name.

A rule takes the network that is being built and the operation's arguments, with a Value or a Constant in the place of
each tensor, and returns the same for its result. It raises Unsayable if no layer computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isclose, prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from trainmark.importing.axes import AXES, BATCH, Unsayable, Value, canonical, merged, reshaped
from trainmark.networks.ops import Shape


class Constant(NamedTuple):
    """A tensor that does not depend on the network's input.

    source: the parameter or buffer that it holds; None if there is none.
    places: the place in that of each value, as if it were flat.
    """

    tensor: torch.Tensor
    source: str | None = None
    places: torch.Tensor | None = None


@dataclass(frozen=True)
class Scores:
    """The products of queries and keys, which become attention. shares: whether they went through a softmax."""

    query: Value
    key: Value
    factor: float
    shares: bool = False


class Network(Protocol):
    """What rules ask of the network that is built. result: the shape that the operation's tensors have in PyTorch."""

    samples: int
    result: Any

    def add(self, op: str, *inputs: Value, **attributes: float) -> tuple[str, Shape]:
        """Add a layer; return its name and the shape of its output."""

    def take(self, node: str, role: str, source: Constant, index: Any) -> None:
        """Take an array of a layer from a parameter of the module. index: the place of each value in the parameter."""


# --- arguments ----------------------------------------------------------------------------------------------------


def _value(operand: object) -> Value:
    if not isinstance(operand, Value):
        what = "a constant tensor" if isinstance(operand, Constant) else "the scores of attention"
        raise Unsayable(f"takes {what}, where a layer takes the output of others")
    if operand.factor != 1:
        raise Unsayable(f"multiplies by {operand.factor:g}; no layer multiplies by a fixed number")
    return operand


def _any(operand: object) -> Value:
    """Return a value that may have a factor, which views keep."""
    if not isinstance(operand, Value):
        raise Unsayable("moves the scores of attention")
    return operand


def _source(operand: object, what: str) -> Constant:
    if not isinstance(operand, Constant) or operand.places is None:
        raise Unsayable(f"has no {what} of its own" if operand is None else f"computes its {what}")
    return operand


def _one(sizes: Any, what: str) -> int:
    numbers = {*sizes} if isinstance(sizes, Sequence) else {sizes}
    if len(numbers) != 1:
        raise Unsayable(f"has a {what} of {' x '.join(map(str, sizes))}; allowed: one number for all sides")
    return int(numbers.pop())


def _window(size: Any, stride: Any, padding: Any) -> dict[str, int]:
    return {"size": _one(size, "window"), "stride": _one(stride or size, "stride"), "padding": _one(padding, "padding")}


def _only(allowed: Any, given: Any, what: str) -> None:
    if given != allowed and {*given} != {allowed} if isinstance(given, Sequence) else given != allowed:
        raise Unsayable(f"has {what} {given}; allowed: {allowed}")


def _canonical(operand: object, rank: int, what: str) -> Value:
    value = _value(operand)
    if len(value.shape) != rank or not value.is_canonical:
        raise Unsayable(f"takes {what}, and gets other axes or another order of them")
    return value


# --- layers with arrays ---------------------------------------------------------------------------------------------


def _per_channel(net: Network, name: str, **arrays: object) -> None:
    for role, operand in arrays.items():
        source = _source(operand, role)
        net.take(name, role, source, source.places)


def _layer(
    net: Network, op: str, value: Value, arrays: Mapping[str, object] | None = None, **attributes: float
) -> Value:
    """Return the output of a layer with the dimensions of its input. arrays: those with a value for each channel."""
    name, _shape = net.add(op, value, **attributes)
    _per_channel(net, name, **(arrays or {}))
    return replace(value, node=name)


def convolution(
    net: Network, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Value:  # fmt: skip
    """Conv2D of an image. The kernel of PyTorch has the filters first."""
    value, source = _canonical(x, 3, "an image (samples, channels, height, width)"), _source(weight, "kernel")
    _only(1, dilation, "a dilation of")
    size = _one(source.tensor.shape[2:], "window")
    if padding == "same":
        padding = (size - 1) // 2 if size % 2 else "same on one side"
    window = _window(size, stride, padding)
    name, shape = net.add(
        "Conv2D", value, filters=len(source.tensor), **window, groups=groups, bias=int(bias is not None)
    )
    assert source.places is not None
    net.take(name, "kernel", source, source.places.permute(2, 3, 1, 0))
    if bias is not None:
        _per_channel(net, name, bias=bias)
    return canonical(net.samples, name, shape)


def linear(net: Network, x: Any, weight: Any, bias: Any = None) -> Value:
    """Dense, of vectors or of the channels at each position."""
    value, source = tokens(net, flattened(net, _value(x))), _source(weight, "kernel")
    if value.dimensions[-1] != value.axis("channels"):
        raise Unsayable("takes another axis than that of the channels")
    name, shape = net.add("Dense", value, units=len(source.tensor), bias=int(bias is not None))
    assert source.places is not None
    net.take(name, "kernel", source, source.places.T)
    if bias is not None:
        _per_channel(net, name, bias=bias)
    return _with_channels(value, name, shape, len(value.dimensions) - 1)


def _with_channels(value: Value, node: str, shape: Shape, place: int) -> Value:
    """Return the output of a node whose dimensions are those of another value, but for the channels at a place."""
    new = replace(value, node=node, shape=shape)
    dimensions = [*value.dimensions]
    dimensions[place] = new.axis("channels")
    return replace(new, dimensions=tuple(dimensions))


def flattened(net: Network, value: Value) -> Value:
    """Return a value whose tensor is (samples, values) as a vector, by Flatten if it is none."""
    axes = AXES[len(value.shape)]
    if len(value.dimensions) != 2 or len(axes) == 1:
        return value
    if value.dimensions[1] != merged([factor for axis in axes for factor in value.axis(axis)]):
        if value.dimensions[1] == value.axis("channels"):  # of each position
            return value
        raise Unsayable("takes an image or a sequence that is flattened in another order than channels first")
    return canonical(net.samples, *net.add("Flatten", value))


def batch_norm(
    net: Network, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, training: bool, momentum: float,
    epsilon: float, *_: Any,
) -> Value:  # fmt: skip
    """BatchNorm. The decay is 1 - PyTorch's momentum."""
    value = _value(x)
    if not value.is_canonical:
        raise Unsayable("takes the channels in the second axis")
    if not training:
        raise Unsayable("has fixed statistics in training")
    arrays = {"gamma": gamma, "beta": beta, "moving_mean": mean, "moving_variance": variance}
    return _layer(net, "BatchNorm", value, arrays, epsilon=epsilon, decay=1 - momentum)


def layer_norm(
    net: Network, x: Any, sizes: Sequence[int], gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Value:
    """LayerNorm over the channels."""
    value = tokens(net, flattened(net, _value(x)))
    if len(sizes) != 1 or value.dimensions[-1] != value.axis("channels"):
        raise Unsayable("normalises other axes than that of the channels")
    return _layer(net, "LayerNorm", value, {"gamma": gamma, "beta": beta}, epsilon=epsilon)


def group_norm(
    net: Network, x: Any, groups: int, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Value:
    """GroupNorm."""
    value = _value(x)
    if not value.is_canonical:
        raise Unsayable("takes the channels in the second axis")
    return _layer(net, "GroupNorm", value, {"gamma": gamma, "beta": beta}, groups=groups, epsilon=epsilon)


def local_response_norm(net: Network, x: Any, size: int, alpha: float, beta: float, k: float) -> Value:
    """LRN. PyTorch divides alpha by the number of channels of a window."""
    value = _canonical(x, 3, "an image (samples, channels, height, width)")
    return _layer(net, "LRN", value, n=size, alpha=alpha / size, beta=beta, k=k)


def embedding(net: Network, weight: Any, x: Any, padding_index: int = -1, *_: Any) -> Value | Constant:
    """Embedding of token ids, or constants if the ids are."""
    source = _source(weight, "vectors")
    if isinstance(x, Constant):
        assert source.places is not None
        return Constant(source.tensor[x.tensor], source.source, source.places[x.tensor])
    value = _value(x)
    if padding_index >= 0:
        raise Unsayable("keeps the vector of padding_idx from training; no layer does")
    if value.node != "input" or len(value.dimensions) != 2:
        raise Unsayable("takes other numbers than the token ids of the input")
    name, shape = net.add("Embedding", value, vocabulary=len(source.tensor), units=source.tensor.shape[1])
    net.take(name, "embeddings", source, source.places)
    new = canonical(net.samples, name, shape)
    samples, channels, positions = new.dimensions
    return replace(new, dimensions=(samples, positions, channels))


# --- layers without arrays ------------------------------------------------------------------------------------------


def elementwise(op: str, net: Network, x: Any, *_: Any, **__: Any) -> Value:
    """A layer that takes each value by itself."""
    return _layer(net, op, _value(x))


def gelu(net: Network, x: Any, approximate: str = "none") -> Value:
    """GELU."""
    return _layer(net, "GELU", _value(x), approximate=int(approximate == "tanh"))


def hardtanh(net: Network, x: Any, low: float = -1, high: float = 1) -> Value:
    """ReLU6, between 0 and 6."""
    if (low, high) != (0, 6):
        raise Unsayable(f"clips to {low:g} to {high:g}; the layer ReLU6 clips to 0 to 6")
    return elementwise("ReLU6", net, x)


def dropout(net: Network, x: Any, rate: float, train: bool) -> Any:
    """Dropout; nothing where the rate is 0 or it is off."""
    if not train or rate == 0:
        return x
    if isinstance(x, Scores):
        raise Unsayable("drops shares of attention; set its dropout to 0")
    return _layer(net, "Dropout", _value(x), rate=rate)


def softmax(net: Network, x: Any, dim: int, *_: Any) -> Value | Scores:
    """Softmax over the channels, or over the scores of attention."""
    if isinstance(x, Scores):
        _only(-1, dim if dim < 0 else dim - len(net.result), "the axis")
        return replace(x, shares=True)
    value = flattened(net, _value(x))
    if value.dimensions[dim] != value.axis("channels"):
        raise Unsayable("sums over another axis than that of the channels")
    return _layer(net, "Softmax", value)


def max_pool(
    net: Network, x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Value:
    """MaxPool2D."""
    value = _canonical(x, 3, "an image (samples, channels, height, width)")
    _only(1, dilation, "a dilation of")
    return canonical(net.samples, *net.add("MaxPool2D", value, **_window(size, stride, padding), ceil=int(ceil)))


def average_pool(
    net: Network, x: Any, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, padded: bool = True,
    divisor: Any = None,
) -> Value:  # fmt: skip
    """AvgPool2D. Its padding counts as zeros, and it has no window beyond the end."""
    value = _canonical(x, 3, "an image (samples, channels, height, width)")
    window = _window(size, stride, padding)
    if ceil or divisor or (window["padding"] and not padded):
        raise Unsayable("averages parts of windows (ceil_mode, count_include_pad=False or divisor_override)")
    return canonical(net.samples, *net.add("AvgPool2D", value, **window))


def adaptive_average(net: Network, x: Any, sides: Any) -> Value:
    """GlobalAvgPool2D if one value is left, nothing if all are, AvgPool2D if windows of one size give the sides."""
    value = _canonical(x, 3, "an image (samples, channels, height, width)")
    sides = [*sides] if isinstance(sides, Sequence) else [sides, sides]
    if sides == [1, 1]:
        return _pooled(net, value, "GlobalAvgPool2D")
    if tuple(sides) == value.shape[1:]:
        return value
    sizes = {side // count for side, count in zip(value.shape[1:], sides, strict=True)}
    if any(side % count for side, count in zip(value.shape[1:], sides, strict=True)) or len(sizes) > 1:
        of = f"{value.shape[1]} x {value.shape[2]}"
        raise Unsayable(f"gives {sides[0]} x {sides[1]} of {of}, by windows of several sizes")
    size = sizes.pop()
    return canonical(net.samples, *net.add("AvgPool2D", value, size=size, stride=size))


def _pooled(net: Network, value: Value, op: str) -> Value:
    """Return a pooling over all positions, in the operation's dimensions: what it pools is gone, or of size 1."""
    name, shape = net.add(op, value)
    channels = [place for place, held in enumerate(value.dimensions) if held == value.axis("channels")]
    kept = {0: value.dimensions[0], channels[0]: (canonical(net.samples, name, shape).dimensions[1])}
    dropped = len(value.dimensions) - len(net.result)
    dimensions = tuple(kept.get(place, ()) for place in range(len(value.dimensions)) if place in kept or not dropped)
    return Value(name, shape, dimensions)


def over_positions(ops: Mapping[int, str], net: Network, x: Any, dim: Any = None, *_: Any, **__: Any) -> Value:
    """A pooling over all positions of a sequence or an image, and nothing else."""
    value = _value(x)
    dims = {place % len(value.dimensions) for place in ([dim] if isinstance(dim, int) else dim or ())}
    pooled = [factor for place in sorted(dims) for factor in value.dimensions[place]]
    positions = [factor for axis in AXES[len(value.shape)][1:] for factor in value.axis(axis)]
    if sorted(pooled) != sorted(positions) or value.axis("channels") not in value.dimensions:
        raise Unsayable("reduces other axes than all positions of an image or a sequence")
    return _pooled(net, value, ops[len(value.shape)])


# --- several inputs -------------------------------------------------------------------------------------------------


def sequence(net: Network, value: Value) -> Value:
    """Return an image as the sequence of its positions."""
    return value.as_sequence(net.add("Sequence", value)[0]) if len(value.shape) == 3 else value


def tokens(net: Network, value: Value) -> Value:
    """Return an image whose positions are in one dimension as a sequence."""
    if len(value.shape) == 3 and merged([*value.axis("height"), *value.axis("width")]) in value.dimensions:
        return sequence(net, value)
    return value


def _alike(net: Network, *values: Value) -> list[Value]:
    """Return values of one kind: sequences, if one of them is a sequence."""
    if any(len(value.shape) == 2 for value in values):
        return [sequence(net, value) for value in values]
    return [*values]


def _spread(net: Network, value: Value, constant: Constant) -> np.ndarray:
    """Return the index of a constant for each value of a sample of a node's output: an array of the node's shape."""
    assert constant.places is not None
    if [factor.axis for factor in value.dimensions[0]] != [BATCH]:
        raise Unsayable("combines a parameter with a tensor whose first axis is not that of the samples")
    try:
        index = constant.places.expand(value.sizes)[0].numpy()
    except RuntimeError as error:
        raise Unsayable("gives a larger tensor than the layer's output") from error
    return rearranged(index, value)


def rearranged(array: np.ndarray, value: Value) -> np.ndarray:
    """Return the values of a sample, with the dimensions of a value, in the shape of its node."""
    factors = [factor for dimension in value.dimensions[1:] for factor in dimension]
    axes = AXES[len(value.shape)]
    order = sorted(range(len(factors)), key=lambda i: (axes.index(factors[i].axis), -factors[i].stride))
    return array.reshape([factor.size for factor in factors]).transpose(order).reshape(value.shape)


def add(net: Network, x: Any, y: Any, *, alpha: float = 1) -> Any:
    """Add, or PositionEmbedding if one of both is a parameter."""
    _only(1, alpha, "a factor of")
    if isinstance(x, Constant) or isinstance(y, Constant):
        constant, other = (x, y) if isinstance(x, Constant) else (y, x)
        source, value = _source(constant, "positions"), sequence(net, _value(other))
        index = _spread(net, value, source)
        if len(value.shape) != 2 or source.tensor.numel() < index.size:
            raise Unsayable("adds a parameter; the layer PositionEmbedding has a vector for each position")
        name, _shape = net.add("PositionEmbedding", value)
        net.take(name, "positions", source, index.T)
        return replace(value, node=name)
    if not isinstance(x, Value) or not isinstance(y, Value):
        raise Unsayable("adds a number, or to the scores of attention; no layer does")
    first, second = _alike(net, _value(x), _value(y))
    if first.dimensions != second.dimensions:
        raise Unsayable("adds tensors of different axes, which PyTorch repeats")
    return replace(first, node=net.add("Add", first, second)[0])


def multiply(net: Network, x: Any, y: Any) -> Any:
    """Multiply, LayerScale if one of both is a parameter; the scale of attention if it is a number."""
    if not isinstance(x, Value | Scores):
        x, y = y, x
    if isinstance(y, Constant) and y.places is None and y.tensor.numel() == 1:
        y = float(y.tensor)
    if isinstance(y, int | float):
        return replace(x, factor=x.factor * y)
    if isinstance(y, Constant):
        return _scaled(net, _value(x), _source(y, "factor"))
    first, second = _alike(net, _value(x), _value(y))
    return _product(net, *((second, first) if len(first.shape) < len(second.shape) else (first, second)))


def _scaled(net: Network, value: Value, factor: Constant) -> Value:
    index = _spread(net, value, factor).reshape(value.shape[0], -1)
    if (index != index[:, :1]).any():
        raise Unsayable("multiplies by a parameter; the layer LayerScale has a factor for each channel")
    name, _shape = net.add("LayerScale", value)
    net.take(name, "gamma", factor, index[:, 0])
    return replace(value, node=name)


def _product(net: Network, first: Value, second: Value) -> Value:
    if first.dimensions != second.dimensions:
        if prod(second.shape[1:]) != 1:
            raise Unsayable("multiplies tensors of different axes, which PyTorch repeats")
        for held, other in zip(first.dimensions, second.dimensions, strict=True):
            if other not in (held, ()):
                raise Unsayable("multiplies by values for other axes than that of the channels")
        if len(second.shape) > 1:
            second = canonical(net.samples, *net.add("Flatten", second))
    return replace(first, node=net.add("Multiply", first, second)[0])


def divide(net: Network, x: Any, y: Any) -> Any:
    """The scale of attention, by a number."""
    if isinstance(y, Constant) and y.tensor.numel() == 1:
        y = float(y.tensor)
    if not isinstance(y, int | float):
        raise Unsayable("divides by a tensor; no layer does")
    return multiply(net, x, 1 / y)


def join(net: Network, operands: Sequence[Any], dim: int = 0) -> Any:
    """Concat of channels, or ClassToken if the first of two is a parameter."""
    if len(operands) == 2 and isinstance(operands[0], Constant):
        source, value = _source(operands[0], "token"), sequence(net, _value(operands[1]))
        assert source.places is not None
        one = source.places.select(dim, 0)[0]
        if value.dimensions[dim] != value.axis("positions") or source.places.shape[dim] != 1 or one.dim() != 1:
            raise Unsayable("joins a parameter; the layer ClassToken puts one vector before a sequence")
        name, shape = net.add("ClassToken", value)
        net.take(name, "token", source, one)
        new = replace(value, node=name, shape=shape)
        return replace(new, dimensions=_replaced(value.dimensions, dim, new.axis("positions")))
    values = _alike(net, *map(_value, operands))
    for value in values:
        rest = _replaced(value.dimensions, dim, ())
        if value.dimensions[dim] != value.axis("channels") or rest != _replaced(values[0].dimensions, dim, ()):
            raise Unsayable("joins other axes than that of the channels")
    if len(values) == 1:
        return values[0]
    name, shape = net.add("Concat", *values)
    return _with_channels(values[0], name, shape, dim % len(values[0].dimensions))


def _replaced(dimensions: tuple, place: int, by: tuple) -> tuple:
    changed = [*dimensions]
    changed[place] = by
    return tuple(changed)


def attention(
    net: Network, query: Any, key: Any, value: Any, mask: Any = None, rate: float = 0.0, causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """Attention. Heads are the outer factor of the channels."""
    if mask is not None or enable_gqa:
        raise Unsayable("has a mask; allowed: is_causal")
    if rate:
        raise Unsayable("drops shares of attention; set its dropout to 0")
    queries, keys, values = (sequence(net, _value(x)) for x in (query, key, value))
    return _attended(net, queries, keys, values, scale, causal)


def _attended(net: Network, query: Value, key: Value, value: Value, scale: float | None, causal: bool) -> Value:
    heads = _heads(query)
    for other in (key, value):
        if _heads(other) != heads:
            raise Unsayable("has other heads of keys or values than of queries")
    units = query.shape[0] // heads
    if scale is not None and not isclose(scale, units**-0.5, rel_tol=1e-6):
        raise Unsayable(f"multiplies scores by {scale:g}; allowed: 1 / sqrt({units}), {units**-0.5:g}")
    name, shape = net.add("Attention", query, key, value, heads=heads, causal=int(causal))
    new = replace(query, node=name, shape=shape)
    places = [i for i, held in enumerate(query.dimensions) if held and held[0].axis == "channels"]
    split = reshaped([new.axis("channels")], [heads, shape[0] // heads] if len(places) > 1 else [shape[0]])
    dimensions = [*query.dimensions]
    for place, held in zip(places, split, strict=True):
        dimensions[place] = held
    return replace(new, dimensions=tuple(dimensions))


def _heads(value: Value) -> int:
    """Return the number of heads of (samples, heads, positions, units of a head) or (samples, positions, units)."""
    held = value.dimensions
    whole = value.axis("channels")
    if len(value.shape) == 2 and held[-2] == value.axis("positions") and len(held) in (3, 4):
        if held[-1] == whole and all(not one for one in held[1:-2]):
            return 1
        if len(held) == 4 and merged([*held[1], *held[-1]]) == whole:
            return held[1][0].size if held[1] else 1
    raise Unsayable("takes other axes than samples, heads, positions and units of a head")


def matrix_product(net: Network, x: Any, y: Any) -> Value | Scores:
    """The scores of attention, and their product with the values."""
    if isinstance(x, Scores) and isinstance(y, Value):
        if not x.shares:
            raise Unsayable("multiplies scores that went through no softmax")
        query, key, value = _unjoined(x.query, x.key, sequence(net, _value(y)))
        attended = _attended(net, query, key, value, x.factor, False)
        return replace(attended, dimensions=reshaped(attended.dimensions, net.result))
    if isinstance(x, Value) and isinstance(y, Value):
        query, transposed = sequence(net, replace(x, factor=1.0)), sequence(net, replace(y, factor=1.0))
        dimensions = (*transposed.dimensions[:-2], transposed.dimensions[-1], transposed.dimensions[-2])
        return Scores(query, replace(transposed, dimensions=dimensions), x.factor * y.factor)
    raise Unsayable("multiplies matrices; layers that do are Dense and Attention")


def _unjoined(*values: Value) -> list[Value]:
    """Return values with the samples and the heads, which torch.bmm has in one dimension, in two."""
    found = []
    for value in values:
        first = value.dimensions[0]
        divided = (first[:1], first[1:], *value.dimensions[1:])
        found.append(replace(value, dimensions=divided) if len(first) > 1 else value)
    return found


# --- views ----------------------------------------------------------------------------------------------------------


def reshape(net: Network, x: Any, *_: Any, **__: Any) -> Value | Scores:
    """No layer: the same values, in other dimensions."""
    if isinstance(x, Scores):
        return x
    return replace(_any(x), dimensions=reshaped(x.dimensions, net.result))


def permuted(order: Callable[..., torch.Tensor], net: Network, x: Any, *arguments: Any) -> Value:
    """No layer: the same values, with dimensions in another order. order: PyTorch's function."""
    places = [side - 2 for side in order(torch.empty([i + 2 for i in range(len(x.dimensions))]), *arguments).shape]
    return replace(_any(x), dimensions=tuple(x.dimensions[place] for place in places))


def same(net: Network, x: Any, *_: Any, **__: Any) -> Any:
    """No layer: the same values."""
    if isinstance(x, Value) and x.sizes != [*net.result]:
        raise Unsayable("repeats values; no layer does")
    return x


def part(net: Network, x: Any, dim: int = 0, start: int | None = None, stop: int | None = None, step: int = 1) -> Value:
    """SliceChannels, or SelectToken of one position."""
    value = _any(x)
    size = value.sizes[dim]
    first, last = slice(start, stop).indices(size)[:2]
    _only(1, step, "a step of")
    if (first, last) == (0, size):
        return value
    if value.dimensions[dim] and value.dimensions[dim][0].axis != "channels":
        value = sequence(net, value)
        if value.dimensions[dim] != value.axis("positions") or last - first != 1:
            raise Unsayable("takes a part of the samples or of the positions; layers take one position, or all")
        name, shape = net.add("SelectToken", value, position=first)
        return replace(value, node=name, shape=shape, dimensions=_replaced(value.dimensions, dim, ()))
    (factor,) = value.dimensions[dim] or (None,)
    if factor is None or factor.stride * factor.size != value.shape[0]:
        raise Unsayable("takes every few channels; the layer SliceChannels takes channels that follow each other")
    name, shape = net.add("SliceChannels", value, start=first * factor.stride, stop=last * factor.stride)
    held = merged([factor._replace(size=last - first)])
    return replace(value, node=name, shape=shape, dimensions=_replaced(value.dimensions, dim, held))


def select(net: Network, x: Any, dim: int, place: int) -> Value:
    """As `part`, without the dimension."""
    place %= x.sizes[dim]
    value = part(net, x, dim, place, place + 1)
    dim %= len(value.dimensions)
    return replace(value, dimensions=(*value.dimensions[:dim], *value.dimensions[dim + 1 :]))


def unbind(net: Network, x: Any, dim: int = 0) -> list[Value]:
    """As `select`, each place."""
    return [select(net, x, dim, place) for place in range(len(net.result))]


def split(net: Network, x: Any, sizes: Any, dim: int = 0) -> list[Value]:
    """As `part`, each part."""
    ends = np.cumsum([0, *(shape[dim] for shape in net.result)]).tolist()
    return [part(net, x, dim, first, last) for first, last in pairwise(ends)]


Rule = Callable[..., Any]

RULES: Mapping[str, Rule] = {
    "conv2d": convolution,
    "linear": linear,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "local_response_norm": local_response_norm,
    "embedding": embedding,
    "relu": partial(elementwise, "ReLU"),
    "relu6": partial(elementwise, "ReLU6"),
    "silu": partial(elementwise, "SiLU"),
    "sigmoid": partial(elementwise, "Sigmoid"),
    "tanh": partial(elementwise, "Tanh"),
    "gelu": gelu,
    "hardtanh": hardtanh,
    "dropout": dropout,
    "softmax": softmax,
    "max_pool2d": max_pool,
    "avg_pool2d": average_pool,
    "adaptive_avg_pool2d": adaptive_average,
    "mean": partial(over_positions, {2: "GlobalAvgPool1D", 3: "GlobalAvgPool2D"}),
    "amax": partial(over_positions, {2: "GlobalMaxPool1D"}),
    "add": add,
    "mul": multiply,
    "div": divide,
    "cat": join,
    "scaled_dot_product_attention": attention,
    "matmul": matrix_product,
    "bmm": matrix_product,
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "_unsafe_view"), reshape),
    "permute": partial(permuted, torch.permute),
    "transpose": partial(permuted, torch.transpose),
    "movedim": partial(permuted, torch.movedim),
    "t": partial(permuted, torch.t),
    **dict.fromkeys(("contiguous", "clone", "expand", "alias"), same),
    "slice": part,
    "select": select,
    "unbind": unbind,
    "split": split,
    "split_with_sizes": split,
    "chunk": split,
}
"""Rules by the name of the operation in PyTorch's library aten, without its overload."""
