"""The report's section on networks: their layers, and parameter counts compared with published ones."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.networks.graph import Architecture
from trainmark.networks.layers import Layer, layers
from trainmark.networks.ops import Node, Shape
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.record import read_record
from trainmark.tables.tables import GROUP, groups
from trainmark.variant import split_name

PREFIXES = ("", "k", "M", "G", "T")
"""SI prefixes of the powers of 1000."""

WORDS = {
    "Flatten": "flatten",
    "Dense": "dense layer, {units} units",
    "Conv2D": "convolution {size}x{size}, {filters} filters",
    "Conv1D": "convolution over {size} positions, {filters} filters",
    "Embedding": "embedding of {vocabulary} tokens, {units} values each",
    "BatchNorm": "batch normalization, epsilon {epsilon:g}, decay {decay:g}",
    "LRN": "local response normalization over {n} channels, k {k:g}, alpha {alpha:g}, beta {beta:g}",
    "ReLU": "ReLU",
    "Dropout": "dropout, rate {rate:g}",
    "MaxPool2D": "max pooling {size}x{size}",
    "AvgPool2D": "average pooling {size}x{size}",
    "GlobalMaxPool1D": "max pooling over the whole length",
    "Concat": "concatenation",
    "Add": "sum",
    "BinaryLogits": "the two logits 0 and z of one logit z",
}
"""A text for each op, with its attributes."""

UNUSUAL = {
    "stride": (1, ", stride {}"),
    "padding": (0, ", padding {}"),
    "ceil": (0, ", ceil mode"),
    "bias": (1, ", no bias"),
}
"""Attributes that the text mentions only if their value is not this usual one, and the words for them."""


@dataclass(frozen=True, eq=False)
class Model:
    """A recipe's network, for the input shape and number of classes that it is trained with here.

    anchor: its HTML id in the page.
    title: its heading in the page.
    parameters: its number of trainable parameters.
    published: a sentence that compares the recipe's parameter count with the published one.
    agrees: whether these two counts are equal.
    cost: floating-point operations of the forward pass, in words.
    rows: for each layer its texts (name, op, output shape, parameters, FLOPs).
    totals: the sums of the last two columns.
    """

    anchor: str
    title: str
    parameters: int
    published: str
    agrees: bool
    cost: str
    rows: tuple[tuple[str, ...], ...]
    totals: tuple[str, str]


def models(runs: pd.DataFrame, folder: Path) -> dict[tuple[str, ...], Model]:
    """The network of each group of `Results.groups`, except commands. Equal networks share one Model.

    folder: the results folder. Raises RecordError or DataError if a record or a dataset's manifest can't be read.
    """
    distinct: dict[tuple, Model] = {}
    by_group = {}
    for values, group in groups(runs[runs["framework"] != FRAMEWORK], GROUP):
        experiment, recipe, dataset = values
        manifest = read_manifest(folder / "datasets" / dataset / "prepared")
        settings = read_record(folder / group["record"].iloc[0])["settings"]
        architecture = ResolvedTraining(RECIPES[recipe], settings, manifest).architecture
        key = (recipe, architecture.input_shape, manifest["classes"], settings.get("dropout"))
        if key not in distinct:
            distinct[key] = model(RECIPES[recipe], architecture, manifest["classes"], f"model-{len(distinct) + 1}")
        by_group[values] = distinct[key]
        by_group[split_name(experiment)[0], recipe, dataset] = distinct[key]
    return by_group


def model(recipe: Recipe, architecture: Architecture, classes: int, anchor: str) -> Model:
    """Describe a recipe's network. anchor: its HTML id."""
    rows = layers(architecture)
    parameters = sum(row.parameters for row in rows)
    published, agrees = _published(recipe)
    return Model(
        anchor=anchor,
        title=f"{recipe.name}: {architecture.name}, input {_input(architecture)}, {classes:,} classes",
        parameters=parameters,
        published=published,
        agrees=agrees,
        cost=_cost(rows),
        rows=_rows(rows, architecture),
        totals=(f"{parameters:,}", f"{sum(row.flops for row in rows):,}"),
    )


def _published(recipe: Recipe) -> tuple[str, bool]:
    """(a sentence on the parameter count for the published input shape and classes, whether it is as published)."""
    counted = recipe.architecture(recipe.input_shape, recipe.published_classes).parameter_count()
    count = f"{counted:,} parameters at {recipe.published_classes:,} classes"
    if counted == recipe.published_parameters:
        return f"{count}, as published ({recipe.source}).", True
    return f"{count}, but {recipe.published_parameters:,} are published ({recipe.source}).", False


def _cost(rows: tuple[Layer, ...]) -> str:
    """The FLOPs of an evaluation and, if the network has auxiliary heads, those including the heads."""
    evaluated, all_layers = sum(row.flops for row in rows if not row.auxiliary), sum(row.flops for row in rows)
    heads = f" ({format_flops(all_layers)} with its auxiliary heads)" if any(row.auxiliary for row in rows) else ""
    return f"{format_flops(evaluated)} per sample in the forward pass{heads}"


def format_flops(count: int) -> str:
    """Format a number of floating-point operations to 3 digits: "7.75 GFLOPs"."""
    rounded = float(f"{count:.3g}")
    power = min((len(f"{rounded:.0f}") - 1) // 3, len(PREFIXES) - 1)
    scaled = rounded / 1000**power
    digits = f"{scaled:.0f}" if scaled >= 100 or not power else f"{scaled:#.3g}"
    return f"{digits} {PREFIXES[power]}FLOPs"


def in_words(node: Node) -> str:
    """The text of a layer: "convolution 7x7, 64 filters, stride 2, padding 3"."""
    unusual = [
        text.format(node.attributes[key])
        for key, (usual, text) in UNUSUAL.items()
        if node.attributes.get(key, usual) != usual
    ]
    return WORDS[node.op].format(**node.attributes) + "".join(unusual)


def _rows(rows: tuple[Layer, ...], architecture: Architecture) -> tuple[tuple[str, ...], ...]:
    """The texts of each layer. Its inputs are named unless the layer of the previous row is the only one."""
    weights = {name: f", loss x {weight:g}" for name, weight in architecture.auxiliary}

    def texts(layer: Layer, previous: str) -> tuple[str, ...]:
        node = layer.node
        sources = "" if node.inputs == (previous,) else f", from {', '.join(node.inputs)}"
        head = f" (auxiliary head{weights.get(node.name, '')})" if layer.auxiliary else ""
        words = f"{in_words(node)}{sources}{head}"
        return node.name, words, _shape(layer.output_shape), f"{layer.parameters:,}", f"{layer.flops:,}"

    previous_names = ["input", *(row.node.name for row in rows)]
    return tuple(map(texts, rows, previous_names))


def _shape(shape: Shape) -> str:
    """Format a shape: "3 x 224 x 224"."""
    return " x ".join(map(str, shape))


def _input(architecture: Architecture) -> str:
    """Format the input of a network: "3 x 224 x 224", "400 token ids"."""
    return _shape(architecture.input_shape) + (" token ids" if architecture.takes_tokens else "")
