"""The networks of the report: for each its picture, its parameters beside the published count, and its layers."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.networks.graph import Architecture
from trainmark.networks.layers import Layer, layers
from trainmark.networks.ops import Node, Shape
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import InputTransform, Recipe, seen_shape
from trainmark.records.record import read_record
from trainmark.report.network_picture.boxes import boxes, format_input, format_shape, in_words
from trainmark.report.network_picture.picture import Picture, picture
from trainmark.tables.tables import GROUP, groups

PREFIXES = ("", "k", "M", "G", "T")
"""SI's, of the powers of 1000."""


@dataclass(frozen=True, eq=False)
class Model:
    """A recipe's network as it is trained in this report, and what the page says of it.

    anchor: id of its place in the page. published: a sentence on the recipe's published parameter count. cost:
    floating-point operations of the forward pass, in words. rows: a row of texts for each layer (name, op, output
    shape, parameters, FLOPs); totals: of the last two columns.
    """

    anchor: str
    title: str
    parameters: int
    published: str
    agrees: bool
    cost: str
    picture: Picture
    rows: tuple[tuple[str, ...], ...]
    totals: tuple[str, str]


def models(runs: pd.DataFrame, folder: Path) -> dict[tuple[str, ...], Model]:
    """The network of each experiment, recipe and dataset of the runs; what is the same network is one Model.

    folder: of the results. Raises RecordError or DataError where a record or a dataset's manifest can't be read.
    """
    found: dict[tuple, Model] = {}
    of_group = {}
    for values, group in groups(runs, GROUP):
        _, recipe, dataset = values
        manifest = read_manifest(folder / "datasets" / dataset / "prepared")
        transform = read_record(folder / group["record"].iloc[0])["settings"]["input"]
        seen = seen_shape(InputTransform(**transform) if transform else None, manifest["sample_shape"])
        key = (recipe, seen, manifest["classes"])
        if key not in found:
            found[key] = model(RECIPES[recipe], key[1], key[2], f"model-{len(found) + 1}")
        of_group[values] = found[key]
    return of_group


def model(recipe: Recipe, input_shape: Shape, classes: int, anchor: str) -> Model:
    """What the page says of a recipe's network for inputs of a shape and a number of classes."""
    architecture = recipe.architecture(tuple(input_shape), classes)
    rows = layers(architecture)
    parameters = sum(row.parameters for row in rows)
    published, agrees = _published(recipe)
    return Model(
        anchor=anchor,
        title=f"{recipe.name}: {architecture.name}, input {format_input(architecture)}, {classes:,} classes",
        parameters=parameters,
        published=published,
        agrees=agrees,
        cost=_cost(rows),
        picture=picture(boxes(architecture)),
        rows=tuple(_row(row, before) for row, before in zip(rows, _before(architecture), strict=True)),
        totals=(f"{parameters:,}", f"{sum(row.flops for row in rows):,}"),
    )


def _published(recipe: Recipe) -> tuple[str, bool]:
    """A sentence on the parameters at the published classes and input shape; and whether they are the published."""
    counted = recipe.architecture(recipe.input_shape, recipe.published_classes).parameter_count()
    count = f"{counted:,} parameters at {recipe.published_classes:,} classes"
    if counted == recipe.published_parameters:
        return f"{count}, as published ({recipe.source}).", True
    return f"{count}; published are {recipe.published_parameters:,} ({recipe.source}).", False


def _cost(rows: tuple[Layer, ...]) -> str:
    """The FLOPs of evaluation, and with auxiliary heads, where there are any."""
    evaluated, all_layers = sum(row.flops for row in rows if not row.auxiliary), sum(row.flops for row in rows)
    heads = f"; with its auxiliary heads {format_flops(all_layers)}" if any(row.auxiliary for row in rows) else ""
    return f"{format_flops(evaluated)} a sample forward{heads}"


def format_flops(count: int) -> str:
    """A number of floating-point operations to 3 digits: "7.75 GFLOPs"."""
    rounded = float(f"{count:.3g}")
    power = min((len(f"{rounded:.0f}") - 1) // 3, len(PREFIXES) - 1)
    scaled = rounded / 1000**power
    digits = f"{scaled:.0f}" if scaled >= 100 or not power else f"{scaled:#.3g}"
    return f"{digits} {PREFIXES[power]}FLOPs"


def _before(architecture: Architecture) -> list[str]:
    return ["input", *(node.name for node in architecture.nodes[:-1])]


def _row(layer: Layer, before: str) -> tuple[str, ...]:
    """A layer's texts; what feeds it is told where it isn't the layer of the row before."""
    node = layer.node
    words = in_words(node) + _sources(node, before) + (" (auxiliary head)" if layer.auxiliary else "")
    return node.name, words, format_shape(layer.output_shape), f"{layer.parameters:,}", f"{layer.flops:,}"


def _sources(node: Node, before: str) -> str:
    return "" if node.inputs == (before,) else f", of {', '.join(node.inputs)}"
