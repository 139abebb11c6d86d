"""Architectures: networks as graphs of layers, independent of any framework.

Shapes are those of one sample, without the batch axis (see ops.py). This module needs only the standard library,
because a dry run uses it to check recipes against their datasets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from trainmark.errors import did_you_mean
from trainmark.networks.ops import KINDS_OF_INPUT, OPS, Node, Parameter, Shape


@dataclass(frozen=True)
class Architecture:
    """A graph of layers.

    input_shape: shape of one input: an image, a vector, or the token ids that an Embedding takes. In `inputs` of nodes
        it is called "input".
    nodes: the layers, each after its inputs; the last one gives the logits.
    auxiliary: (node, weight) of nodes that also give logits in training. The loss is the cross entropy of the last
        node's logits plus the weighted cross entropies of theirs. Evaluation uses only the last node.

    Raises ValueError if a node has a name that is used twice, no inputs or an input that does not come
    before it, and if an auxiliary node does not exist.
    """

    name: str
    input_shape: Shape
    nodes: tuple[Node, ...]
    auxiliary: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        known = {"input"}
        for node in self.nodes:
            self._check(node, known)
            known.add(node.name)
        missing = {name for name, _ in self.auxiliary} - known
        if missing:
            raise ValueError(f"{self.name} has no layer {sorted(missing)}, which its auxiliary losses name")

    def _check(self, node: Node, known: set[str]) -> None:
        """Raise ValueError if a node can't follow the known ones."""
        if node.name in known:
            raise ValueError(f"{self.name} names layer {node.name!r} twice")
        if not node.inputs:
            raise ValueError(f'layer {node.name!r} of {self.name} has no inputs; name a layer or "input"')
        missing = set(node.inputs) - known
        if missing:
            raise ValueError(
                f"layer {node.name!r} of {self.name} has the input {sorted(missing)}, which is not defined before it"
            )

    @property
    def output(self) -> str:
        """Name of the node that gives the logits."""
        return self.nodes[-1].name

    @cached_property
    def takes_tokens(self) -> bool:
        """Whether the input is token ids (integers) instead of an image."""
        return any(node.op == "Embedding" and "input" in node.inputs for node in self.nodes)

    @cached_property
    def has_dropout(self) -> bool:
        """Whether the network has Dropout layers."""
        return any(node.op == "Dropout" for node in self.nodes)

    def with_dropout(self, rate: float | None) -> "Architecture":
        """Return the same network with another rate in its Dropout layers; 0 removes them, and None changes nothing."""
        if rate is None:
            return self
        if rate == 0:
            return self.without_dropout()
        nodes = (replace(node, attributes={"rate": rate}) if node.op == "Dropout" else node for node in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def without_dropout(self) -> "Architecture":
        """Return the same network without its Dropout layers."""
        replacement = {"input": "input"}
        nodes = []
        for node in self.nodes:
            inputs = tuple(replacement[name] for name in node.inputs)
            replacement[node.name] = inputs[0] if node.op == "Dropout" else node.name
            if node.op != "Dropout":
                nodes.append(Node(node.name, node.op, inputs, node.attributes))
        return Architecture(self.name, self.input_shape, tuple(nodes), self.auxiliary)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the nodes whose outputs are logits, the main head first."""
        return (self.output, *(name for name, _ in self.auxiliary))

    def inference_nodes(self) -> tuple[Node, ...]:
        """Return the nodes that the logits depend on, in order; auxiliary heads are not among them."""
        needed = {self.output}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed |= set(node.inputs)
        return tuple(node for node in self.nodes if node.name in needed)

    def shapes(self) -> dict[str, Shape]:
        """Return the output shapes of "input" and of every node. Raises ValueError if a node can't take its inputs."""
        shapes = {"input": self.input_shape}
        for node in self.nodes:
            shapes[node.name] = output_shape(node, shapes)
        return shapes

    def arrays(self) -> tuple[Parameter, ...]:
        """Return all arrays of the layers, trained or not, in the order of the nodes."""
        shapes = self.shapes()
        return tuple(
            parameter
            for node in self.nodes
            for parameter in OPS[node.op].parameters(node, tuple(shapes[name] for name in node.inputs))
        )

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the trained arrays, in the order of the nodes."""
        return tuple(parameter for parameter in self.arrays() if parameter.trained)

    def parameter_count(self) -> int:
        """Return the number of trained values."""
        return sum(prod(parameter.shape) for parameter in self.parameters())


def output_shape(node: Node, shapes: dict[str, Shape]) -> Shape:
    """Return the output shape of a node. Raises ValueError if it can't take its inputs.

    shapes: output shapes of the nodes before it, by name.
    """
    op = OPS[node.op]
    if missing := [name for name in node.inputs if name not in shapes]:
        hint = did_you_mean(missing[0], shapes)
        raise ValueError(f"layer {node.name!r} has the input {missing[0]!r}, which is no layer before it{hint}")
    inputs = tuple(shapes[name] for name in node.inputs)
    for shape in inputs:
        if len(shape) not in op.ranks:
            allowed = " or ".join(KINDS_OF_INPUT[rank] for rank in op.ranks)
            raise ValueError(f"{node.op} layer {node.name!r} takes {allowed}, not shape {shape}")
    return op.output_shape(node, inputs)


class Graph:
    """Builder of an architecture: `add` layers, each fed by the previous one unless `after` names others."""

    def __init__(self, input_shape: Shape) -> None:
        self._nodes: list[Node] = []
        self._shapes = {"input": input_shape}

    def add(self, name: str, op: str, *, after: str | tuple[str, ...] | None = None, **attributes: float) -> str:
        """Add a layer and return its name. Raises ValueError if it can't take its inputs."""
        inputs = (self.last,) if after is None else (after,) if isinstance(after, str) else after
        node = Node(name, op, inputs, attributes)
        self._nodes.append(node)
        self._shapes[name] = output_shape(node, self._shapes)
        return name

    @property
    def last(self) -> str:
        """Name of the layer added last; "input" before the first."""
        return self._nodes[-1].name if self._nodes else "input"

    def shape(self, name: str) -> Shape:
        """Return the shape of a layer's output."""
        return self._shapes[name]

    def side(self, name: str) -> int:
        """Return the height of a layer's output, which equals its width."""
        return self._shapes[name][1]

    def architecture(self, name: str, auxiliary: tuple[tuple[str, float], ...] = ()) -> Architecture:
        """Return the architecture; the layer added last gives the logits."""
        return Architecture(name, self._shapes["input"], tuple(self._nodes), auxiliary)


def chain(name: str, input_shape: Shape, layers: list[tuple[str, str, dict]]) -> Architecture:
    """Return an Architecture in which each layer follows the previous one.

    layers: (name, op, attributes) of each layer.
    """
    previous = ("input", *(layer[0] for layer in layers))
    nodes = tuple(Node(layer, op, (previous[i],), attributes) for i, (layer, op, attributes) in enumerate(layers))
    return Architecture(name, input_shape, nodes)


ExecutionOrder = list[tuple[Node, tuple[str, ...]]]


def execution_order(nodes: tuple[Node, ...], heads: tuple[str, ...]) -> ExecutionOrder:
    """Return (node, names of the outputs not needed after it) in order; the heads' outputs are always needed."""
    last_use = {name: node.name for node in nodes for name in node.inputs}
    return [
        (node, tuple(name for name in last_use if last_use[name] == node.name and name not in heads)) for node in nodes
    ]


def execute(
    order: ExecutionOrder, values: dict[str, Any], compute: Callable[[Node, list], Any], release: bool
) -> Iterator[tuple[str, Any]]:
    """Yield (node, its output) of every layer, in order, and keep the outputs in `values`, which has the input's.

    compute: a function (node, its inputs) -> output.
    release: keep only what is still needed; otherwise evaluation would hold the outputs of all layers at once.
    """
    for node, no_longer_needed in order:
        values[node.name] = compute(node, [values[name] for name in node.inputs])
        yield node.name, values[node.name]
        if release:
            for name in no_longer_needed:
                del values[name]


def maximised(architecture: Architecture) -> set[str]:
    """Return the names of the Conv1D layers of whose outputs the network needs only the maximum over time.

    The gradient of all other outputs is 0. ReLU may lie between, since it does not change where the maximum is.
    """

    def only_maximum(name: str) -> bool:
        users = [node for node in architecture.nodes if name in node.inputs]
        if len(users) != 1 or name in architecture.heads:
            return False
        return users[0].op == "GlobalMaxPool1D" or (users[0].op == "ReLU" and only_maximum(users[0].name))

    convolutions = [node for node in architecture.nodes if node.op == "Conv1D" and not node.attributes["padding"]]
    return {node.name for node in convolutions if only_maximum(node.name)}
