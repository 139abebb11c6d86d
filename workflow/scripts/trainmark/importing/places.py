"""Follows where each value of a tensor comes from, so that a graph of layers needs no reshape and no transpose.

A tensor of PyTorch holds the output of a node, or a parameter, in any order. It is known by its places: for each of its
values the place in what it holds, as if that were flat. An operation that moves values moves their places alike.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, Protocol

import torch

from trainmark.networks.ops import Shape


class Unsayable(Exception):
    """No graph of layers says what a module computes. The message continues the name of the operation."""


@dataclass(frozen=True)
class Value:
    """A tensor that holds the output of a node, or a part of it.

    node, shape: of the graph. places: of its values in (samples, *shape), with the shape of the tensor.
    factor: a number by which the tensor is multiplied; only the scores of attention may be.
    """

    node: str
    shape: Shape
    places: torch.Tensor
    factor: float = 1.0

    @property
    def positions(self) -> int:
        """The number of values of each channel in a sample."""
        return prod(self.shape[1:])

    @property
    def channels(self) -> torch.Tensor:
        """The channel of each value."""
        return self.places // self.positions % self.shape[0]


@dataclass(frozen=True)
class Constant:
    """A tensor that does not depend on the network's input.

    source: the parameter or buffer that it holds. places: of its values in that; None if it holds none.
    """

    tensor: torch.Tensor
    places: Any = None
    source: str = ""


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
    result: tuple[int, ...]

    def add(self, op: str, *inputs: Value, **attributes: float) -> tuple[str, Shape]:
        """Add a layer; return its name and the shape of its output."""

    def take(self, node: str, role: str, source: str, places: torch.Tensor) -> None:
        """Take an array of a layer from a parameter of the module. places: of its values in the parameter."""


@cache
def in_order(*shape: int) -> torch.Tensor:
    """Return the places of the values of an array of this shape."""
    return torch.arange(prod(shape)).reshape(shape)


def canonical(net: Network, made: tuple[str, Shape]) -> Value:
    """Return a node's output as a tensor (samples, *shape). made: its name and shape."""
    return Value(*made, in_order(net.samples, *made[1]))


def is_canonical(net: Network, value: Value) -> bool:
    """Return whether a tensor is (samples, *shape) of its node."""
    return bool(torch.equal(value.places, in_order(net.samples, *value.shape)))


def whole(net: Network, value: Value) -> Value:
    """Return a tensor that holds all of a node's output, by SliceChannels and SelectToken if it holds a part."""
    held = torch.zeros(net.samples, value.shape[0], value.positions, dtype=torch.bool)
    held.view(-1)[value.places] = True
    if held.sum() != value.places.numel():
        raise Unsayable("repeats values; no layer does")
    if held.all():
        return value
    channels = held.any(2).any(0).nonzero().flatten().tolist()
    positions = held.any(1).any(0).nonzero().flatten().tolist()
    kept = torch.zeros_like(held)
    if channels[-1] - channels[0] + 1 < value.shape[0]:
        kept[:, channels[0] : channels[-1] + 1] = True
        made = net.add("SliceChannels", value, start=channels[0], stop=channels[-1] + 1)
    elif len(positions) == 1 < value.positions:
        kept[:, :, positions] = True
        made = net.add("SelectToken", sequence(net, value), position=positions[0])
    else:
        raise Unsayable("takes a part; allowed are channels that follow each other, and one position")
    order = kept.view(-1).cumsum(0) - 1  # the values that are kept keep their order
    return whole(net, Value(*made, order[value.places]))


def sequence(net: Network, value: Value) -> Value:
    """Return an image as the sequence of its positions. Their places are the same."""
    if len(value.shape) < 3:
        return value
    name, shape = net.add("Sequence", value)
    return replace(value, node=name, shape=shape)


def flattened(net: Network, value: Value) -> Value:
    """Return a tensor for a layer over channels: (samples, values) as a vector, (samples, positions, channels) as one.

    That is by Flatten and Sequence, if the node has other axes.
    """
    if value.places.dim() == 2 and len(value.shape) > 1:
        if torch.equal(value.places, in_order(net.samples, prod(value.shape))):
            return canonical(net, net.add("Flatten", value))
        if not holds_channels(value, -1):
            raise Unsayable("takes an image or a sequence that is flattened in another order than channels first")
    return sequence(net, value) if value.places.dim() == 3 else value


def holds_channels(value: Value, dim: int) -> bool:
    """Return whether a dimension holds all channels, in their order, of one position."""
    return bool(torch.equal(value.places, with_channels(value, (value.node, value.shape), dim).places))


def with_channels(value: Value, made: tuple[str, Shape], dim: int) -> Value:
    """Return the output of a node that differs in the number of channels, which the dimension holds."""
    name, (channels, *sides) = made
    first = value.places.movedim(dim, -1)[..., :1]
    sample, position = first // (value.shape[0] * value.positions), first % value.positions
    places = (sample * channels + in_order(channels)) * value.positions + position
    return Value(name, (channels, *sides), places.movedim(-1, dim))


def by(index: torch.Tensor, places: torch.Tensor, otherwise: str) -> torch.Tensor:
    """Return the place of a parameter for each index. index: of each value of the tensor to which it is applied.

    Raises Unsayable, with a sentence, if values of one index have several.
    """
    places = places.expand(index.shape)
    found = torch.zeros(int(index.max()) + 1, dtype=torch.int64)
    found[index] = places
    if not torch.equal(found[index], places):
        raise Unsayable(otherwise)
    return found
