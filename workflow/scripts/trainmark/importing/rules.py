"""Which layers of a graph compute what an operation of PyTorch computes: a table of functions, by its name.

A rule takes the network that is being built and the operation's arguments, with a Value or a Constant in the place of
each tensor, and returns the same for its result. It raises Unsayable if no layer computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isclose, prod
from typing import Any

import torch

from trainmark.importing import places as at
from trainmark.importing.places import Constant, Network, Scores, Unsayable, Value
from trainmark.networks.ops import Shape

# --- arguments ----------------------------------------------------------------------------------------------------


def _value(net: Network, operand: object) -> Value:
    if not isinstance(operand, Value):
        what = "a constant" if isinstance(operand, Constant | int | float) else "the scores of attention"
        raise Unsayable(f"takes {what}, where a layer takes the output of others")
    if operand.factor != 1:
        raise Unsayable(f"multiplies by {operand.factor:g}; no layer multiplies by a fixed number")
    return at.whole(net, operand)


def _ordered(net: Network, value: Value, axes: int) -> Value:
    """Return a value of so many axes, if its tensor is (samples, channels, ...)."""
    if len(value.shape) != axes or not at.is_canonical(net, value):
        raise Unsayable("takes the samples, the channels and then the sides, and gets other axes")
    return value


def _image(net: Network, operand: object) -> Value:
    return _ordered(net, _value(net, operand), 3)


def _array(operand: object, what: str) -> Constant:
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


def _take(net: Network, name: str, **arrays: object) -> None:
    """Take arrays with a value for each channel from parameters."""
    for role, operand in arrays.items():
        source = _array(operand, role)
        net.take(name, role, source.source, source.places)


# --- layers with arrays ---------------------------------------------------------------------------------------------


def convolution(
    net: Network, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Value:  # fmt: skip
    """Conv2D or Conv1D, or Dense of an image of one pixel. The kernel of PyTorch has the filters first."""
    value, kernel = _value(net, x), _array(weight, "kernel")
    filters, _, *window = kernel.tensor.shape
    if len(value.shape) == 1 and {*window} == {1} and groups == 1:
        one = replace(kernel, places=kernel.places.flatten(1), tensor=kernel.tensor.flatten(1))
        dense = linear(net, replace(value, places=value.places.flatten(1)), one, bias)
        return replace(dense, places=dense.places.reshape(net.result))
    value = _ordered(net, at.sequence(net, value) if len(window) == 1 else value, 1 + len(window))
    _only(1, dilation, "a dilation of")
    size = _one(window, "window")
    if padding == "same" and size % 2 == 0:
        raise Unsayable("has an even window and padding 'same', which is larger on one side")
    padding = {"same": (size - 1) // 2, "valid": 0}.get(padding, padding) if isinstance(padding, str) else padding
    options = {"filters": filters, **_window(size, stride, padding), **({} if groups == 1 else {"groups": groups})}
    places = kernel.places.movedim((1, 0), (-2, -1))
    return at.canonical(net, _with_kernel(net, f"Conv{len(window)}D", value, kernel.source, places, bias, **options))


def _with_kernel(
    net: Network, op: str, value: Value, source: str, places: torch.Tensor, bias: object, **attributes: int
) -> tuple[str, Shape]:
    """Add a layer with a kernel, and with a bias if there is one; return its name and the shape of its output."""
    made = net.add(op, value, **attributes, bias=int(bias is not None))
    net.take(made[0], "kernel", source, places)
    _take(net, made[0], **({} if bias is None else {"bias": bias}))
    return made


def linear(net: Network, x: Any, weight: Any, bias: Any = None) -> Value:
    """Dense, of vectors or of the channels at each position. The kernel takes any order of flattened values."""
    value, kernel = _value(net, x), _array(weight, "kernel")
    order, places, samples = value.places[0], kernel.places, at.in_order(net.samples)[:, None]
    is_flat = value.places.dim() == 2 and len(value.shape) > 1
    if is_flat and torch.equal(value.places, order + prod(value.shape) * samples):
        value, places = at.canonical(net, net.add("Flatten", value)), places[:, order.argsort()]
    value = at.flattened(net, value)
    if not at.holds_channels(value, -1):
        raise Unsayable("takes another axis than that of the channels")
    made = _with_kernel(net, "Dense", value, kernel.source, places.T, bias, units=len(kernel.tensor))
    return at.with_channels(value, made, -1)


def _normalised(net: Network, op: str, value: Value, arrays: Mapping[str, object], **attributes: float) -> Value:
    name, _ = net.add(op, value, **attributes)
    _take(net, name, **arrays)
    return replace(value, node=name)


def batch_norm(
    net: Network, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, training: bool, momentum: float,
    epsilon: float, *_: Any,
) -> Value:  # fmt: skip
    """BatchNorm. The decay is 1 - PyTorch's momentum."""
    value = at.flattened(net, _value(net, x))
    if not at.holds_channels(value, 1):
        raise Unsayable("takes the channels in the second axis")
    if not training:
        raise Unsayable("has fixed statistics in training")
    arrays = {"gamma": gamma, "beta": beta, "moving_mean": mean, "moving_variance": variance}
    return _normalised(net, "BatchNorm", value, arrays, epsilon=epsilon, decay=1 - momentum)


def layer_norm(
    net: Network, x: Any, sizes: Sequence[int], gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Value:
    """LayerNorm over the channels."""
    value = at.flattened(net, _value(net, x))
    if len(sizes) != 1 or not at.holds_channels(value, -1):
        raise Unsayable("normalises other axes than that of the channels")
    return _normalised(net, "LayerNorm", value, {"gamma": gamma, "beta": beta}, epsilon=epsilon)


def group_norm(
    net: Network, x: Any, groups: int, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Value:
    """GroupNorm."""
    value = at.flattened(net, _value(net, x))
    value = _ordered(net, value, len(value.shape))
    return _normalised(net, "GroupNorm", value, {"gamma": gamma, "beta": beta}, groups=groups, epsilon=epsilon)


def embedding(
    net: Network, weight: Any, x: Any, padding_index: int = -1, by_frequency: bool = False, sparse: bool = False
) -> Value:
    """Embedding of token ids."""
    vectors, value = _array(weight, "vectors"), _value(net, x)
    if padding_index >= 0 or by_frequency or sparse:
        raise Unsayable("has other gradients (padding_idx, scale_grad_by_freq or sparse)")
    if value.node != "input" or not at.is_canonical(net, value):
        raise Unsayable("takes other numbers than the token ids of the input")
    made = net.add("Embedding", value, vocabulary=len(vectors.tensor), units=vectors.tensor.shape[1])
    net.take(made[0], "embeddings", vectors.source, vectors.places)
    return replace(new := at.canonical(net, made), places=new.places.transpose(1, 2))


# --- layers without arrays ------------------------------------------------------------------------------------------


def elementwise(op: str, net: Network, x: Any, **attributes: float) -> Value:
    """A layer that takes each value by itself."""
    value = _value(net, x)
    return replace(value, node=net.add(op, value, **attributes)[0])


def gelu(net: Network, x: Any, approximate: str = "none") -> Value:
    """GELU."""
    return elementwise("GELU", net, x, approximate=int(approximate == "tanh"))


def clip(net: Network, x: Any, low: Any = None, high: Any = None) -> Value:
    """ReLU from 0, or ReLU6 from 0 to 6."""
    if low != 0 or high not in (None, 6):
        raise Unsayable(f"clips to {low} to {high}; ReLU clips to 0 and more, ReLU6 to 0 to 6")
    return elementwise("ReLU6" if high else "ReLU", net, x)


def dropout(net: Network, x: Any, rate: float, train: bool) -> Any:
    """Dropout; nothing where the rate is 0 or it is off."""
    if not train or rate == 0:
        return x
    if isinstance(x, Scores):
        raise Unsayable("drops shares of attention; set its dropout to 0")
    return elementwise("Dropout", net, x, rate=rate)


def local_response_norm(
    net: Network, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """LRN. PyTorch divides alpha by the number of channels of a window."""
    return elementwise("LRN", net, _image(net, x), n=size, alpha=alpha / size, beta=beta, k=k)


def softmax(net: Network, x: Any, dim: int, dtype: Any = None) -> Value | Scores:
    """Softmax over the channels, or over the scores of attention."""
    _only(None, dtype, "a dtype of its own,")
    if isinstance(x, Scores):
        _only(-1, dim if dim < 0 else dim - len(net.result), "the axis")
        return replace(x, shares=True)
    value = at.flattened(net, _value(net, x))
    if not at.holds_channels(value, dim):
        raise Unsayable("sums over another axis than that of the channels")
    return elementwise("Softmax", net, value)


def max_pool(
    net: Network, x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Value:
    """MaxPool2D."""
    _only(1, dilation, "a dilation of")
    return at.canonical(net, net.add("MaxPool2D", _image(net, x), **_window(size, stride, padding), ceil=int(ceil)))


def average_pool(
    net: Network, x: Any, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, padded: bool = True,
    divisor: Any = None,
) -> Value:  # fmt: skip
    """AvgPool2D. Its padding counts as zeros, and it has no window beyond the end."""
    window = _window(size, stride, padding)
    if ceil or divisor or (window["padding"] and not padded):
        raise Unsayable("averages parts of windows (ceil_mode, count_include_pad=False or divisor_override)")
    return at.canonical(net, net.add("AvgPool2D", _image(net, x), **window))


def adaptive_average(net: Network, x: Any, sides: Any) -> Value:
    """GlobalAvgPool2D if one value is left, nothing if all are, AvgPool2D if windows of one size give the sides."""
    value = _image(net, x)
    sides = (*sides,) if isinstance(sides, Sequence) else (sides, sides)
    if sides == (1, 1):
        return over_positions({3: "GlobalAvgPool2D"}, net, value, (2, 3))
    sides = tuple(side or own for side, own in zip(sides, value.shape[1:], strict=True))
    if sides == value.shape[1:]:
        return value
    (height, rest), (width, more) = (divmod(side, count) for side, count in zip(value.shape[1:], sides, strict=True))
    if rest or more or height != width:
        raise Unsayable(f"averages {value.shape[1:]} to {sides}; allowed: by square windows of one size")
    return at.canonical(net, net.add("AvgPool2D", value, size=height, stride=height))


def over_positions(
    ops: Mapping[int, str], net: Network, x: Any, dim: Any = (), keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """A pooling over all positions of a sequence or an image, and nothing else."""
    _only(None, dtype, "a dtype of its own,")
    value = _value(net, x)
    value = value if len(value.shape) in ops else at.sequence(net, value)
    of_channel = value.places // value.positions
    pooled = of_channel.amin(dim, keepdim=True)
    if pooled.numel() * value.positions != of_channel.numel() or (of_channel != pooled).any():
        raise Unsayable("reduces other axes than all positions of an image or a sequence")
    return Value(*net.add(ops[len(value.shape)], value), pooled.reshape(net.result))


# --- several inputs -------------------------------------------------------------------------------------------------


def _alike(net: Network, *operands: Any) -> list[Value]:
    """Return values of one kind: sequences, if one of them is a sequence."""
    values = [_value(net, operand) for operand in operands]
    return [at.sequence(net, value) for value in values] if any(len(value.shape) == 2 for value in values) else values


def add(net: Network, x: Any, y: Any, *, alpha: float = 1) -> Any:
    """Add, or PositionEmbedding if one of both is a parameter."""
    _only(1, alpha, "a factor of")
    if isinstance(x, Constant) or isinstance(y, Constant):
        constant, other = (x, y) if isinstance(x, Constant) else (y, x)
        value = at.sequence(net, _value(net, other))
        alone = "adds a parameter; the layer PositionEmbedding has a vector for each position"
        index = value.places % prod(value.shape)
        places = at.by(index.expand(net.result), _array(constant, "positions").places, alone).reshape(value.shape)
        if len(value.shape) != 2 or constant.tensor.numel() < places.numel():
            raise Unsayable(alone)
        name, _ = net.add("PositionEmbedding", value)
        net.take(name, "positions", constant.source, places.T)
        return replace(value, node=name)
    for number, other in ((x, y), (y, x)):
        if isinstance(number, int | float) and number == 0:  # as sum() begins
            return other
    first, second = _alike(net, x, y)
    if not torch.equal(first.places, second.places):
        raise Unsayable("adds tensors of different axes, which PyTorch repeats")
    return replace(first, node=net.add("Add", first, second)[0])


def _number(operand: Any) -> Any:
    """Return the number that a tensor of one value holds, or the operand."""
    is_one = isinstance(operand, Constant) and not operand.source and operand.tensor.numel() == 1
    return float(operand.tensor) if is_one else operand


def multiply(net: Network, x: Any, y: Any) -> Value | Scores:
    """Multiply, LayerScale if one of both is a parameter; the scale of attention if it is a number."""
    if not isinstance(x, Value | Scores):
        x, y = y, x
    y = _number(y)
    if isinstance(x, Scores) and not isinstance(y, int | float):
        raise Unsayable("multiplies the scores of attention by a tensor; allowed: a number")
    if isinstance(y, int | float) and isinstance(x, Value | Scores):
        return replace(x, factor=x.factor * y)
    if isinstance(y, Constant):
        value = _value(net, x)
        alone = "multiplies by a parameter; the layer LayerScale has a factor for each channel"
        places = at.by(value.channels, _array(y, "factor").places, alone)
        name, _ = net.add("LayerScale", value)
        net.take(name, "gamma", y.source, places)
        return replace(value, node=name)
    return _product(net, *sorted((_repeated(net, x), _repeated(net, y)), key=lambda value: -value.positions))


def _repeated(net: Network, operand: Any) -> Value:
    """Return a value for each channel that PyTorch repeated for all positions, or any whole value."""
    if not isinstance(operand, Value) or operand.positions > 1 or operand.factor != 1:
        return _value(net, operand)
    return operand if operand.places.unique().numel() == net.samples * operand.shape[0] else at.whole(net, operand)


def _product(net: Network, first: Value, second: Value) -> Value:
    """Multiply. second: of the same shape, or the gates of channels."""
    is_gate = second.positions == 1 < first.positions
    if is_gate:
        wanted = first.places // first.positions  # the place of the sample and the channel in a vector
        second = replace(second, places=second.places.expand(wanted.shape))
    else:
        first, second = _alike(net, first, second)
        wanted = first.places
    if not torch.equal(second.places, wanted):
        raise Unsayable("multiplies tensors of different axes; allowed: the same axes, or a value for each channel")
    if is_gate and len(second.shape) > 1:
        second = at.canonical(net, net.add("Flatten", at.canonical(net, (second.node, second.shape))))
    return replace(first, node=net.add("Multiply", first, second)[0])


def divide(net: Network, x: Any, y: Any) -> Value | Scores:
    """The scale of attention, by a number."""
    y = _number(y)
    if not isinstance(y, int | float):
        raise Unsayable("divides by a tensor; no layer does")
    return multiply(net, x, 1 / y)


def join(net: Network, operands: Sequence[Any], dim: int = 0) -> Value:
    """Concat of channels, or ClassToken if the first of two is a parameter."""
    if isinstance(operands[0], Constant) and len(operands) == 2:
        return _after_token(net, operands[0], operands[1], dim)
    values = _alike(net, *operands)
    if len(values) == 1:
        return values[0]
    name, shape = net.add("Concat", *values)
    joined, before = [], 0
    for value in values:
        sample, place = value.places // prod(value.shape), value.places % prod(value.shape)
        joined.append(sample * prod(shape) + before + place)
        before += prod(value.shape)
    return Value(name, shape, torch.cat(joined, dim))


def _after_token(net: Network, token: Constant, x: Any, dim: int) -> Value:
    alone = "joins a parameter; the layer ClassToken puts one vector before a sequence"
    value = at.sequence(net, _value(net, x))
    in_sequence = value.places.movedim(dim, 0)
    apart = at.in_order(value.positions).reshape(-1, *[1] * (in_sequence.dim() - 1))
    if len(value.shape) != 2 or not torch.equal(in_sequence, in_sequence[:1] + apart):
        raise Unsayable(alone)
    of_channel = in_sequence[:1] // value.positions
    vector = at.by(of_channel % value.shape[0], _array(token, "token").places.movedim(dim, 0), alone)
    name, shape = net.add("ClassToken", value)
    net.take(name, "token", token.source, vector)
    first = of_channel * shape[1]
    return Value(name, shape, torch.cat([first, first + 1 + apart]).movedim(0, dim))


def attention(
    net: Network, query: Any, key: Any, value: Any, mask: Any = None, rate: float = 0.0, causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """Attention. Heads are the outer factor of the channels."""
    if mask is not None or enable_gqa:
        raise Unsayable("has a mask; allowed: is_causal")
    if rate:
        raise Unsayable("drops shares of attention; set its dropout to 0")
    inputs = [at.sequence(net, _value(net, operand)) for operand in (query, key, value)]
    each = [_heads(net, one) for one in inputs]
    if len({*each}) > 1:
        raise Unsayable("has other heads of keys or values than of queries")
    units = inputs[0].shape[0] // each[0]
    if scale is not None and not isclose(scale, units**-0.5, rel_tol=1e-12):
        raise Unsayable(f"multiplies scores by {scale}; allowed: 1 / sqrt({units}), {units**-0.5}, not as a tensor")
    name, shape = net.add("Attention", *inputs, heads=each[0], causal=int(causal))
    return Value(name, shape, _in_heads(net, shape, each[0]).reshape(net.result))


def _in_heads(net: Network, shape: Shape, heads: int) -> torch.Tensor:
    """Return the places of a sequence as (samples, heads, positions, units of a head)."""
    return at.in_order(net.samples, heads, shape[0] // heads, shape[1]).transpose(2, 3)


def _heads(net: Network, value: Value) -> int:
    """Return the number of heads of a tensor, which torch.bmm has in the dimension of the samples."""
    units, places = value.places.shape[-1], value.places
    if value.shape[0] % units == 0:
        heads: int = value.shape[0] // units
        wanted = _in_heads(net, value.shape, heads)
        if places.shape[-2] == value.positions and torch.equal(places.reshape(wanted.shape), wanted):
            return heads
    raise Unsayable("takes other axes than samples, heads, positions and units of a head")


def matrix_product(net: Network, x: Any, y: Any) -> Value | Scores:
    """The scores of attention, and their product with the values."""
    if isinstance(x, Scores) and isinstance(y, Value):
        if not x.shares:
            raise Unsayable("multiplies scores that went through no softmax")
        return attention(net, x.query, x.key, y, scale=x.factor)
    if isinstance(x, Value) and isinstance(y, Value):
        query, key = replace(x, factor=1.0), replace(y, factor=1.0, places=y.places.transpose(-2, -1))
        return Scores(query, key, x.factor * y.factor)
    raise Unsayable("multiplies matrices; layers that do are Dense and Attention")


Rule = Callable[..., Any]

RULES: Mapping[str, Rule] = {
    "conv1d": convolution,
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
    **dict.fromkeys(("hardtanh", "clamp", "clamp_min"), clip),
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
}
"""Rules by the name of the operation in PyTorch's library aten, without its overload."""

MOVES = frozenset(
    ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "_unsafe_view", "permute", "transpose", "t",
     "movedim", "contiguous", "clone", "expand", "expand_as", "alias", "slice", "select", "narrow", "unbind", "split",
     "split_with_sizes", "chunk", "index_select", "flip", "roll", "repeat", "view_as", "reshape_as")
)  # fmt: skip
"""Operations that move values and change none: no layers."""
