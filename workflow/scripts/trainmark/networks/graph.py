"""Architectures: a network as a graph of layers, free of any framework.

Shapes are those of one sample, without the batch axis (see ops.py). A dry run checks recipes against their datasets, so
this needs the standard library only.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from trainmark.networks.ops import KINDS_OF_INPUT, OPS, Node, Parameter, Shape


@dataclass(frozen=True)
class Architecture:
    """A graph of layers in an order in which each node comes after its inputs; the last one gives the logits.

    The graph's own input is called "input": an image, a vector, or the token ids that an Embedding takes. auxiliary:
    nodes that give logits too while the network is trained, each with its weight in the loss, which is the cross
    entropy of the last node's logits plus the weighted ones of theirs. Evaluation goes by the last node alone.

    Raises ValueError where a node is not an op of OPS, is named twice, or is fed by nothing, by too little or by a
    node that does not come before it; and where an auxiliary node is not there.
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
        """Raise ValueError where a node can't stand after those that are known."""
        if node.op not in OPS:
            raise ValueError(f"layer {node.name!r} of {self.name}: unknown op {node.op!r}; known: {', '.join(OPS)}")
        if node.name in known:
            raise ValueError(f"{self.name} names layer {node.name!r} twice")
        if not node.inputs:
            raise ValueError(f'layer {node.name!r} of {self.name} is fed by nothing; name a layer or "input"')
        missing = set(node.inputs) - known
        if missing:
            raise ValueError(f"layer {node.name!r} of {self.name} is fed by {sorted(missing)}, not defined before it")
        least = OPS[node.op].inputs
        if len(node.inputs) < least:
            raise ValueError(f"layer {node.name!r} of {self.name}: {node.op} takes at least {least} inputs")

    @property
    def output(self) -> str:
        """Name of the node that gives the logits."""
        return self.nodes[-1].name

    @cached_property
    def takes_tokens(self) -> bool:
        """Whether the input is token ids, whole numbers, and no image."""
        return any(node.op == "Embedding" and "input" in node.inputs for node in self.nodes)

    @cached_property
    def has_dropout(self) -> bool:
        """Whether the network drops units while it is trained."""
        return any(node.op == "Dropout" for node in self.nodes)

    def without_dropout(self) -> "Architecture":
        """The same network without its Dropout layers."""
        fed_by = {"input": "input"}
        nodes = []
        for node in self.nodes:
            inputs = tuple(fed_by[name] for name in node.inputs)
            fed_by[node.name] = inputs[0] if node.op == "Dropout" else node.name
            if node.op != "Dropout":
                nodes.append(Node(node.name, node.op, inputs, node.attributes))
        return Architecture(self.name, self.input_shape, tuple(nodes), self.auxiliary)

    def inference_nodes(self) -> tuple[Node, ...]:
        """The nodes that the logits depend on, in order: without auxiliary heads."""
        needed = {self.output}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed |= set(node.inputs)
        return tuple(node for node in self.nodes if node.name in needed)

    def shapes(self) -> dict[str, Shape]:
        """Output shape of every node, by node name, the graph's input among them. Raises ValueError where none fits."""
        shapes = {"input": self.input_shape}
        for node in self.nodes:
            shapes[node.name] = output_shape(node, shapes)
        return shapes

    def arrays(self) -> tuple[Parameter, ...]:
        """All arrays of the layers, trained or not, in the order of the nodes."""
        shapes = self.shapes()
        return tuple(
            parameter
            for node in self.nodes
            for parameter in OPS[node.op].parameters(node, tuple(shapes[name] for name in node.inputs))
        )

    def parameters(self) -> tuple[Parameter, ...]:
        """The trained arrays, in the order of the nodes."""
        return tuple(parameter for parameter in self.arrays() if parameter.trained)

    def parameter_count(self) -> int:
        """Number of trained values."""
        return sum(prod(parameter.shape) for parameter in self.parameters())


def output_shape(node: Node, shapes: dict[str, Shape]) -> Shape:
    """Output shape of a node from those of the nodes before it. Raises ValueError where it can't take its inputs."""
    op = OPS[node.op]
    inputs = tuple(shapes[name] for name in node.inputs)
    for shape in inputs:
        if len(shape) not in op.ranks:
            wanted = " or ".join(KINDS_OF_INPUT[rank] for rank in op.ranks)
            hint = ": put a Flatten before it" if op.ranks == (1,) else ""
            raise ValueError(f"{node.op} layer {node.name!r} takes {wanted}, not shape {shape}{hint}")
    return op.output_shape(node, inputs)


class Graph:
    """An architecture in the making: `add` layers, each fed by the one before unless `after` names others."""

    def __init__(self, input_shape: Shape) -> None:
        self._nodes: list[Node] = []
        self._shapes = {"input": input_shape}

    def add(self, name: str, op: str, *, after: str | tuple[str, ...] | None = None, **attributes: float) -> str:
        """Add a layer and return its name. Raises ValueError where it can't take its inputs."""
        inputs = (self.last,) if after is None else (after,) if isinstance(after, str) else after
        node = Node(name, op, inputs, attributes)
        self._nodes.append(node)
        self._shapes[name] = output_shape(node, self._shapes)
        return name

    @property
    def last(self) -> str:
        """Name of the layer added last; the input's before any."""
        return self._nodes[-1].name if self._nodes else "input"

    def side(self, name: str) -> int:
        """Height of a layer's output, which is its width too."""
        return self._shapes[name][1]

    def architecture(self, name: str, auxiliary: tuple[tuple[str, float], ...] = ()) -> Architecture:
        """The graph as it is now; the layer added last gives the logits."""
        return Architecture(name, self._shapes["input"], tuple(self._nodes), auxiliary)


def chain(name: str, input_shape: Shape, layers: list[tuple[str, str, dict]]) -> Architecture:
    """An Architecture whose layers follow one another; `layers` lists (name, op, attributes)."""
    previous = ("input", *(layer[0] for layer in layers))
    nodes = tuple(Node(layer, op, (previous[i],), attributes) for i, (layer, op, attributes) in enumerate(layers))
    return Architecture(name, input_shape, nodes)
