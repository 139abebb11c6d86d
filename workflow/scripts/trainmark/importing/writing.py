"""Writes an imported network as a file of the user's own, with its recipe and its initial weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.files.whole import write_text, written_whole
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import OPS, Node
from trainmark.recipes.initial_weights import Weights

FILE = '''"""The network of {source}, imported by import_network.py. The file is yours: edit it as you like."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape
from trainmark.recipes.recipe import InputTransform, Optimizer, Recipe


def {function}(input_shape: Shape, classes: int) -> Architecture:
    """The network of {source}."""
    graph = Graph(input_shape)
{layers}
    return graph.architecture("{name}")


RECIPE = Recipe(
    name="{name}",
    architecture={function},
    input_shape={input_shape},
    initializer="torch",  # as torch.nn draws its layers
    optimizer=Optimizer("momentum_sgd", 0.01, (("momentum", 0.9),)),  # learning rate and constants
    batch_size=32,
    input={input}
    evaluated_splits=("test",),
    published_parameters={parameters:_},
    published_classes={classes},
    source="{source}",
{vocabulary})
'''


def network_file(architecture: Architecture, source: str) -> str:
    """Return the text of a file with a network. source: the user's file and what makes the module in it."""
    name, shapes = architecture.name, architecture.shapes()
    tokens = architecture.takes_tokens
    vocabulary = max((node.integer("vocabulary") for node in architecture.nodes if node.op == "Embedding"), default=0)
    (classes,) = shapes[architecture.output]
    return FILE.format(
        name=name,
        function=f"network_{name.replace('-', '_')}",
        layers="\n".join(_layers(architecture, classes)),
        input_shape=architecture.input_shape,
        input="None,  # token ids" if tokens else "InputTransform(),  # pixels as numbers from 0 to 1",
        parameters=architecture.parameter_count(),
        classes=classes,
        source=source.replace("\\", "/").replace('"', "'"),
        vocabulary=f"    vocabulary_size={vocabulary},\n" if tokens else "",
    )


def _layers(architecture: Architecture, classes: int) -> Iterator[str]:
    previous = "input"
    for node in architecture.nodes:
        after = "" if node.inputs == (previous,) else f", after={_inputs(node)}"
        defaults = OPS[node.op].attributes
        attributes = {
            name: f"{value:g}" if float(f"{value:g}") == value else repr(value)
            for name, value in ((name, node.attributes[name]) for name in defaults)
            if value != defaults[name].default
        }
        if node.name == architecture.output and node.op == "Dense":
            attributes["units"] = "classes"
        written = "".join(f", {name}={value}" for name, value in attributes.items())
        yield f'    graph.add("{node.name}", "{node.op}"{after}{written})'
        previous = node.name


def _inputs(node: Node) -> str:
    quoted = [f'"{name}"' for name in node.inputs]
    return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"


def write(architecture: Architecture, weights: Weights, source: str, out: Path) -> None:
    """Write the network's file and, beside it, the initial weights (.npz), float32."""
    stored: dict[str, Any] = {name: array.astype(np.float32) for name, array in weights.items()}
    with written_whole(out.with_suffix(".npz")) as part, part.open("wb") as stream:
        np.savez(stream, **stored)
    write_text(out, network_file(architecture, source))
