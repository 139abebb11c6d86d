"""Layers in words, and the boxes that a picture of a network has: a layer with those that follow it alone."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Shape

FOLLOWERS = {"BatchNorm", "ReLU", "LRN", "Dropout", "Flatten", "BinaryLogits"}
"""Ops that stand in the box of the layer before them, where nothing else takes that layer's output."""

WORDS = {
    "Flatten": ("flatten", "flatten"),
    "Dense": ("dense {units}", "dense layer, {units} wide"),
    "Conv2D": ("{size}x{size}{over}, {filters}", "convolution {size}x{size}, {filters} filters"),
    "Conv1D": ("window {size}{over}, {filters}", "convolution over {size} places, {filters} filters"),
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
"""Each op in short, for the picture, and in full, for the table; with its attributes, and `over` for "/stride"."""

UNUSUAL = {
    "stride": (1, ", stride {}"),
    "padding": (0, ", padding {}"),
    "ceil": (0, ", ceil mode"),
    "bias": (1, ", no bias"),
}
"""Attributes that are told in full only where they have another value than this."""

LINE = 16
"""Characters that a line in a box has, unless a single word is longer."""


@dataclass(frozen=True)
class Box:
    """Layers that follow one another, drawn as one. inputs: boxes that feed it. lines: its text, the name first.

    group: what the names of several boxes begin with, as "inception3a" in "inception3a_1x1"; None for a box alone.
    kind: "input", "learned" (it holds parameters), "join" (of several boxes) or "plain". auxiliary: whether it is of
    an auxiliary head. tip: each of its layers, with output shapes.
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
    """A layer for the picture: "7x7/2, 64"."""
    stride = node.attributes.get("stride", 1)
    return WORDS[node.op][0].format(**node.attributes, over=f"/{stride}" if stride != 1 else "")


def in_words(node: Node) -> str:
    """A layer's op with its attributes: "convolution 7x7, 64 filters, stride 2, padding 3"."""
    unusual = [
        text.format(node.attributes[key])
        for key, (usual, text) in UNUSUAL.items()
        if node.attributes.get(key, usual) != usual
    ]
    return WORDS[node.op][1].format(**node.attributes) + "".join(unusual)


def format_shape(shape: Shape) -> str:
    """A shape as people read it: "3 x 224 x 224"."""
    return " x ".join(map(str, shape))


def format_input(architecture: Architecture) -> str:
    """What a network takes: "3 x 224 x 224", "400 token ids"."""
    return format_shape(architecture.input_shape) + (" token ids" if architecture.takes_tokens else "")


def boxes(architecture: Architecture) -> tuple[Box, ...]:
    """The boxes of a network, each after those that feed it; first the input's. Every layer is in one of them."""
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
    """The layers of each box by its name: its first layer's, or "input" for what follows the input."""
    consumers = Counter(source for node in architecture.nodes for source in node.inputs)
    chains: dict[str, list[Node]] = {"input": []}
    box_of = {"input": "input"}
    for node in architecture.nodes:
        before = node.inputs[0]
        box_of[node.name] = box_of[before] if node.op in FOLLOWERS and consumers[before] == 1 else node.name
        chains.setdefault(box_of[node.name], []).append(node)
    return chains


def _groups(names: list[str]) -> set[str]:
    """The prefixes that several boxes have, one after the other, and no others."""
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
    """The words in as few lines as hold them."""
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} · {word}"
        if len(longer) <= LINE:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _tip(name: str, nodes: list[Node], shapes: Mapping[str, Shape]) -> str:
    told = [f"{node.name}: {in_words(node)}, gives {format_shape(shapes[node.name])}" for node in nodes]
    return "\n".join(([f"input: {format_shape(shapes['input'])}"] if name == "input" else []) + told)
