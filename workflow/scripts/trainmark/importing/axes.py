"""Follows the axes of a tensor through reshapes and transposes, so that a graph of layers needs none.

The output of a node has the axes of its shape: channels, and the sides of an image or the positions of a sequence. A
tensor of PyTorch holds them in any order, joined or divided. An axis divided by 12 heads is two factors: the outer one
of size 12, and the inner one. What a dimension holds is the factors of axes in it, the outermost first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from trainmark.networks.ops import Shape

BATCH = "samples"
AXES = {1: ("channels",), 2: ("channels", "positions"), 3: ("channels", "height", "width")}
"""The axes of a node's output, by their number."""


class Factor(NamedTuple):
    """A part of an axis: `size` steps of `stride` values each."""

    axis: str
    stride: int
    size: int


Dimension = tuple[Factor, ...]
"""What a dimension of a tensor holds. Nothing of a size of 1."""


class Unsayable(Exception):
    """No graph of layers says what a module computes. The message continues the name of the operation."""


def merged(factors: Sequence[Factor]) -> Dimension:
    """Return the factors with neighbours of one axis joined, and without those of size 1."""
    found: list[Factor] = []
    for factor in factors:
        if factor.size == 1:
            continue
        last = found[-1] if found else None
        if last and last.axis == factor.axis and last.stride == factor.stride * factor.size:
            found[-1] = Factor(factor.axis, factor.stride, last.size * factor.size)
        else:
            found.append(factor)
    return tuple(found)


def reshaped(dimensions: Sequence[Dimension], shape: Sequence[int]) -> tuple[Dimension, ...]:
    """Return what the dimensions of a tensor hold after a reshape. Raises Unsayable if one holds a part of a factor."""
    left = [factor for dimension in dimensions for factor in dimension]
    found = []
    for size in shape:
        own: list[Factor] = []
        while (missing := size // prod(factor.size for factor in own)) > 1:
            axis, stride, factor_size = left.pop(0)
            if factor_size > missing:
                if factor_size % missing:
                    raise Unsayable(f"divides {factor_size} {axis} by {missing}")
                inner = factor_size // missing
                left.insert(0, Factor(axis, stride, inner))
                stride, factor_size = stride * inner, missing
            if missing % factor_size:
                raise Unsayable(f"mixes {axis} with others")
            own.append(Factor(axis, stride, factor_size))
        found.append(merged(own))
    return tuple(found)


@dataclass(frozen=True)
class Value:
    """A tensor that holds the output of a node.

    node, shape: of the graph. dimensions: what each dimension of the tensor holds.
    factor: a number by which the tensor is multiplied; only the scores of attention may be.
    """

    node: str
    shape: Shape
    dimensions: tuple[Dimension, ...]
    factor: float = 1.0

    @property
    def sizes(self) -> list[int]:
        """The shape of the tensor."""
        return [prod(factor.size for factor in held) for held in self.dimensions]

    def axis(self, name: str) -> Dimension:
        """Return what a dimension with this whole axis holds."""
        sizes = dict(zip(AXES[len(self.shape)], self.shape, strict=True))
        return merged([Factor(name, 1, sizes[name])])

    def holds(self, *axes: str) -> bool:
        """Return whether the dimensions after that of the samples are these axes, each whole."""
        return self.dimensions[1:] == tuple(map(self.axis, axes)) and self.dimensions[0][0].axis == BATCH

    @property
    def is_canonical(self) -> bool:
        """Whether the dimensions are those of the node's output."""
        return self.holds(*AXES[len(self.shape)])

    def as_sequence(self, node: str) -> "Value":
        """Return the value with positions in the place of height and width. node: the Sequence."""
        channels, _, width = self.shape
        strides = {"height": width, "width": 1}

        def moved(dimension: Dimension) -> Dimension:
            return merged(
                [
                    Factor("positions", one.stride * strides[one.axis], one.size) if one.axis in strides else one
                    for one in dimension
                ]
            )

        positions = prod(self.shape[1:])
        return replace(self, node=node, shape=(channels, positions), dimensions=tuple(map(moved, self.dimensions)))


def canonical(samples: int, node: str, shape: Shape) -> Value:
    """Return a node's output as a tensor (samples, *shape)."""
    sizes = {BATCH: samples, **dict(zip(AXES[len(shape)], shape, strict=True))}
    return Value(node, shape, tuple(merged([Factor(axis, 1, size)]) for axis, size in sizes.items()))
