"""Describes layers in words, and groups them into the boxes of a network's picture."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Shape

FOLLOWERS = {"BatchNorm", "ReLU", "LRN", "Dropout", "Flatten", "BinaryLogits"}
"""Ops that are drawn in the box of the layer before them, if no other layer uses that layer's output."""

WORDS = {
    "Flatten": ("flatten", "flatten"),
    "Dense": ("dense {units}", "dense layer, {units} units"),
    "Conv2D": ("{size}x{size}{over}, {filters}", "convolution {size}x{size}, {filters} filters"),
    "Conv1D": ("window {size}{over}, {filters}", "convolution over {size} positions, {filters} filters"),
    "Embedding": ("embed {vocabulary}, {units}", "embedding of {vocabulary} tokens, {units} values each"),
    "BatchNorm": ("bn", "batch normalization, epsilon {epsilon:g}, decay {decay:g}"),
    "LRN": ("lrn", "local response normalization over {n} channels, k {k:g}, alpha {alpha:g}, beta {beta:g}"),
    "ReLU": ("relu", "ReLU"),
    "Dropout": ("dropout {rate:g}", "dropout, rate {rate:g}"),
    "MaxPool2D": ("max {size}x{size}{over}", "max pooling {size}x{size}"),
    "AvgPool2D": ("avg {size}x{size}{over}", "average pooling {size}x{size}"),
    "GlobalMaxPool1D": ("max of all", "max pooling over the whole length"),
    "Concat": ("concat", "concatenation"),
    "Add": ("add", "sum"),
    "BinaryLogits": ("logits 0, z", "the two logits 0 and z of one logit z"),
}
"""For each op a short text for the picture and a full one for the table, with its attributes; {over} is "/stride"."""

UNUSUAL = {
    "stride": (1, ", stride {}"),
    "padding": (0, ", padding {}"),
    "ceil": (0, ", ceil mode"),
    "bias": (1, ", no bias"),
}
"""Attributes that the full text mentions only if their value is not this usual one, and the words for them."""

LINE = 16
"""Longest line in a box, in characters; a single longer word is not broken."""


@dataclass(frozen=True)
class Box:
    """Consecutive layers that are drawn as one box.

    name: the name of its first layer, or "input".
    inputs: names of the boxes that feed it.
    nodes: its layers.
    group: the common prefix of the names of several boxes, as "inception3a" of "inception3a_1x1"; None without a group.
    kind: "input", "learned" (has parameters), "join" (has several inputs) or "plain".
    auxiliary: whether it belongs to an auxiliary head.
    lines: its text, the name first.
    tip: the text that appears under the pointer: each of its layers, with output shapes.
    """

    name: str
    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    group: str | None
    kind: str
    auxiliary: bool
    lines: tuple[str, ...]
    tip: str


def in_short(node: Node) -> str:
    """The short text of a layer: "7x7/2, 64"."""
    stride = node.attributes.get("stride", 1)
    return WORDS[node.op][0].format(**node.attributes, over=f"/{stride}" if stride != 1 else "")


def in_words(node: Node) -> str:
    """The full text of a layer: "convolution 7x7, 64 filters, stride 2, padding 3"."""
    unusual = [
        text.format(node.attributes[key])
        for key, (usual, text) in UNUSUAL.items()
        if node.attributes.get(key, usual) != usual
    ]
    return WORDS[node.op][1].format(**node.attributes) + "".join(unusual)


def format_shape(shape: Shape) -> str:
    """Format a shape: "3 x 224 x 224"."""
    return " x ".join(map(str, shape))


def format_input(architecture: Architecture) -> str:
    """Format the input of a network: "3 x 224 x 224", "400 token ids"."""
    return format_shape(architecture.input_shape) + (" token ids" if architecture.takes_tokens else "")


def boxes(architecture: Architecture) -> tuple[Box, ...]:
    """The boxes of a network, with every layer in exactly one. The input comes first, and each box after its inputs."""
    chains = _chains(architecture)
    box_of = {"input": "input"} | {node.name: name for name, nodes in chains.items() for node in nodes}
    groups = _groups(list(chains))
    evaluated = {node.name for node in architecture.inference_nodes()}
    shapes = architecture.shapes()

    def box(name: str, nodes: list[Node]) -> Box:
        group = _prefix(name) if _prefix(name) in groups else None
        inputs = () if name == "input" else tuple(dict.fromkeys(box_of[source] for source in nodes[0].inputs))
        return Box(
            name=name,
            inputs=inputs,
            nodes=tuple(nodes),
            group=group,
            kind=_kind(name, nodes),
            auxiliary=bool(nodes) and nodes[0].name not in evaluated,
            lines=_lines(name, group, nodes, architecture),
            tip=_tip(name, nodes, shapes),
        )

    return tuple(box(name, nodes) for name, nodes in chains.items())


def _chains(architecture: Architecture) -> dict[str, list[Node]]:
    """The layers of each box, by the box's name: that of its first layer, or "input" for layers joined to the input."""
    consumers = Counter(source for node in architecture.nodes for source in node.inputs)
    chains: dict[str, list[Node]] = {"input": []}
    box_of = {"input": "input"}
    for node in architecture.nodes:
        previous = node.inputs[0]
        joined = node.op in FOLLOWERS and consumers[previous] == 1
        box_of[node.name] = box_of[previous] if joined else node.name
        chains.setdefault(box_of[node.name], []).append(node)
    return chains


def _groups(names: list[str]) -> set[str]:
    """The prefixes that several consecutive boxes share, and no box elsewhere."""
    runs = [list(run) for _, run in groupby(names, _prefix)]
    times = Counter(_prefix(run[0]) for run in runs)
    return {_prefix(run[0]) for run in runs if len(run) > 1 and times[_prefix(run[0])] == 1}


def _prefix(name: str) -> str:
    return name.partition("_")[0]


def _kind(name: str, nodes: list[Node]) -> str:
    if name == "input":
        return "input"
    if len(nodes[0].inputs) > 1:
        return "join"
    return "learned" if {"units", "filters"} & nodes[0].attributes.keys() else "plain"


def _lines(name: str, group: str | None, nodes: list[Node], architecture: Architecture) -> tuple[str, ...]:
    words = [in_short(node) for node in nodes]
    if name == "input":
        words.insert(0, format_input(architecture))
    weights: Mapping[str, float] = dict(architecture.auxiliary)
    notes = [f"loss x {weights[node.name]:g}" for node in nodes if node.name in weights]
    return (name.removeprefix(f"{group}_"), *_wrapped(words), *notes)


def _wrapped(words: list[str]) -> list[str]:
    """Join the words into as few lines as possible."""
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} · {word}"
        if len(longer) <= LINE:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _tip(name: str, nodes: list[Node], shapes: Mapping[str, Shape]) -> str:
    lines = [f"{node.name}: {in_words(node)}, output {format_shape(shapes[node.name])}" for node in nodes]
    return "\n".join(([f"input: {format_shape(shapes['input'])}"] if name == "input" else []) + lines)
