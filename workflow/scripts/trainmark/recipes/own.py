"""The user's own recipes, from files that the key `networks` of a config names.

Only the process that plans runs these files. The plan holds each recipe as data, with its network as a graph for each
shape of its inputs and number of classes. Jobs read it from there, and so does whoever has the results: no code of
somebody else's is run.
"""

import json
import re
import runpy
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from trainmark.errors import ConfigError, DataError, in_one_sentence
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Shape
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import InputTransform, Optimizer, Recipe, recipe_values

SHIPPED = frozenset(RECIPES)

NAME, NAME_ALLOWED = "[a-z0-9][a-z0-9-]{0,39}", "lower-case letters, digits and hyphens, 40 at most"
"""A pattern for the name of an own recipe, and what it allows."""


class PlannedNetwork:
    """A network as the plan holds it: the graph of each input shape and number of classes. name: of its function."""

    def __init__(self, name: str, graphs: Mapping[str, Mapping]) -> None:
        self.__qualname__, self._graphs = name, graphs

    def __call__(self, input_shape: Shape, classes: int) -> Architecture:
        """Return the network. Raises DataError if the plan has none of this shape."""
        try:
            graph = self._graphs[_key(input_shape, classes)]
        except KeyError as error:
            raise DataError(
                f"the plan has no network {self.__qualname__} for inputs of the shape {tuple(input_shape)} and "
                f"{classes} classes; call snakemake again, which writes it"
            ) from error
        nodes = (Node(name, op, tuple(inputs), attributes) for name, op, inputs, attributes in graph["nodes"])
        auxiliary = tuple((name, weight) for name, weight in graph["auxiliary"])
        return Architecture(graph["name"], tuple(graph["input_shape"]), tuple(nodes), auxiliary)


def register(recipes: Iterable[Recipe]) -> None:
    """Make these, and no others, the user's own recipes of this process."""
    for name in RECIPES.keys() - SHIPPED:
        del RECIPES[name]
    RECIPES.update({recipe.name: recipe for recipe in recipes})


def read_networks(files: Iterable[str]) -> list[Recipe]:
    """Run the user's files and return their recipes: each one that a file assigns to a name, or that a plan has.

    Raises ConfigError if a file is missing, fails, or has no recipe, or a recipe with a name that is taken.
    """
    found: dict[str, Recipe] = {}
    for file in files:
        for recipe in _recipes_in(Path(file)):
            if not re.fullmatch(NAME, str(recipe.name)):
                raise ConfigError(f"networks: {file} has a recipe {recipe.name!r}; allowed: {NAME_ALLOWED}")
            if recipe.name in SHIPPED or recipe.name in found:
                raise ConfigError(f"networks: {file} has a recipe {recipe.name}, a name that is taken; choose another")
            found[recipe.name] = recipe
    return list(found.values())


def _recipes_in(file: Path) -> list[Recipe]:
    if not file.is_file():
        raise ConfigError(f"networks: {file} does not exist in {Path.cwd()}, where snakemake was called")
    if file.suffix == ".json":
        return _recipes_of_plan(file)
    try:
        values = runpy.run_path(str(file), run_name=file.stem)
    except Exception as error:  # of the user's code
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else 1)
        raise ConfigError(f"networks: {file}, line {line}: {in_one_sentence(error)}") from error
    recipes = [value for name, value in values.items() if isinstance(value, Recipe) and not name.startswith("_")]
    if not recipes:
        raise ConfigError(f"networks: {file} has no recipe; assign one to a name, such as RECIPE = Recipe(...)")
    return recipes


def _recipes_of_plan(file: Path) -> list[Recipe]:
    """Return the own recipes of a results folder, from its plan.json: the same networks without the user's files."""
    try:
        if recipes := planned_recipes(json.loads(file.read_text())):
            return recipes
        raise LookupError
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"networks: {file} is no plan.json of a results folder with recipes of one's own") from error


def planned_recipes(plan: Mapping) -> list[Recipe]:
    """Return the own recipes of a plan."""
    return [from_document(document) for document in plan.get("recipes", ())]


def as_document(recipe: Recipe, shapes: Iterable[tuple[Shape, int]]) -> dict[str, Any]:
    """Return a recipe as JSON values. shapes: (input shape, classes) of the graphs that it holds."""
    values = {field.name: getattr(recipe, field.name) for field in fields(recipe) if field.name != "architecture"}
    values |= {"optimizer": asdict(recipe.optimizer), "input": recipe.input and asdict(recipe.input)}
    graphs = {_key(*one): graph_values(recipe.architecture(*one)) for one in shapes}
    document: dict[str, Any] = json.loads(
        json.dumps({"values": values, "network": recipe.architecture.__qualname__, "graphs": graphs})
    )
    return document


def from_document(document: Mapping) -> Recipe:
    """Return a recipe of a plan."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in document["values"].items()
    }
    optimizer, transform = values["optimizer"], values["input"]
    constants = tuple((name, value) for name, value in optimizer["constants"])
    values["optimizer"] = Optimizer(optimizer["rule"], optimizer["learning_rate"], constants)
    if transform:
        values["input"] = InputTransform(**transform | {"crop": transform["crop"] and tuple(transform["crop"])})
    return Recipe(architecture=PlannedNetwork(document["network"], document["graphs"]), **values)


def graph_values(architecture: Architecture) -> dict[str, Any]:
    """Return a network as JSON values."""
    return {
        "name": architecture.name,
        "input_shape": architecture.input_shape,
        "nodes": [(node.name, node.op, node.inputs, dict(node.attributes)) for node in architecture.nodes],
        "auxiliary": architecture.auxiliary,
    }


def deciding_values(recipe: Recipe, shapes: Iterable[tuple[Shape, int]]) -> dict[str, Any]:
    """Return what decides a run of a recipe: its values and, of an own one, the digest of its graphs.

    shapes: (input shape, classes) of the graphs. The networks of other recipes are files of the code, whose digest the
    run has.
    """
    if recipe.name in SHIPPED:
        return recipe_values(recipe)
    graphs = [graph_values(recipe.architecture(*one)) for one in shapes]
    return recipe_values(recipe) | {"graphs_sha256": sha256(json.dumps(graphs, sort_keys=True).encode()).hexdigest()}


def _key(input_shape: Shape, classes: int) -> str:
    return f"{'x'.join(map(str, input_shape))}/{classes}"
