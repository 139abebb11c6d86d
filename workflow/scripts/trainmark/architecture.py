"""Architectures: a network as a graph of layers, free of any framework.

Shapes are those of one sample, without the batch axis; images are (channels, height, width).
Standard library only, so that a dry run can check a recipe against its dataset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """One trained array of a layer. `shape` of a Dense kernel is (inputs, units)."""

    name: str
    shape: Shape
    role: str  # "kernel" or "bias"
    fan_in: int
    fan_out: int


@dataclass(frozen=True)
class Node:
    """One layer: its op (a key of OPS), the names of the nodes that feed it, and the op's attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Op:
    """What the graph knows about a layer type: its output shape and its parameters, from its input shape."""

    output_shape: Callable[[Node, Shape], Shape]
    parameters: Callable[[Node, Shape], tuple[Parameter, ...]] = lambda node, shape: ()


def _dense_output_shape(node: Node, shape: Shape) -> Shape:
    if len(shape) != 1:
        raise ValueError(f"Dense layer {node.name!r} takes a vector, not shape {shape}: put a Flatten before it")
    return (int(node.attributes["units"]),)


def _dense_parameters(node: Node, shape: Shape) -> tuple[Parameter, ...]:
    inputs, units = shape[0], int(node.attributes["units"])
    return (
        Parameter(f"{node.name}.kernel", (inputs, units), "kernel", inputs, units),
        Parameter(f"{node.name}.bias", (units,), "bias", inputs, units),
    )


def _same_shape(node: Node, shape: Shape) -> Shape:
    return shape


OPS = {
    "Flatten": Op(lambda node, shape: (prod(shape),)),
    "Dense": Op(_dense_output_shape, _dense_parameters),
    "ReLU": Op(_same_shape),
    "Dropout": Op(_same_shape),
}


@dataclass(frozen=True)
class Architecture:
    """A graph of layers in an order in which each node comes after its inputs; the last one gives the logits.

    The graph's own input is called "input". Raises ValueError where a node is not an op of OPS, is named
    twice, or is fed by nothing or by a node that does not come before it.
    """

    name: str
    input_shape: Shape
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        known = {"input"}
        for node in self.nodes:
            if node.op not in OPS:
                raise ValueError(f"layer {node.name!r} of {self.name}: unknown op {node.op!r}; known: {', '.join(OPS)}")
            if node.name in known:
                raise ValueError(f"{self.name} names layer {node.name!r} twice")
            if not node.inputs:
                raise ValueError(f'layer {node.name!r} of {self.name} is fed by nothing; name a layer or "input"')
            missing = set(node.inputs) - known
            if missing:
                raise ValueError(
                    f"layer {node.name!r} of {self.name} is fed by {sorted(missing)}, not defined before it"
                )
            known.add(node.name)

    def shapes(self) -> dict[str, Shape]:
        """Output shape of every node, by node name, the graph's input among them."""
        shapes = {"input": self.input_shape}
        for node in self.nodes:
            shapes[node.name] = OPS[node.op].output_shape(node, shapes[node.inputs[0]])
        return shapes

    def parameters(self) -> tuple[Parameter, ...]:
        """All trained arrays, in the order of the nodes."""
        shapes = self.shapes()
        return tuple(p for node in self.nodes for p in OPS[node.op].parameters(node, shapes[node.inputs[0]]))

    def parameter_count(self) -> int:
        """Number of trained values."""
        return sum(prod(parameter.shape) for parameter in self.parameters())


def chain(name: str, input_shape: Shape, layers: list[tuple[str, str, dict]]) -> Architecture:
    """An Architecture whose layers follow one another; `layers` lists (name, op, attributes)."""
    previous = ("input", *(layer[0] for layer in layers))
    nodes = tuple(Node(layer, op, (previous[i],), attributes) for i, (layer, op, attributes) in enumerate(layers))
    return Architecture(name, input_shape, nodes)
