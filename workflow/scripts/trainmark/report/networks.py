"""The report's section on networks: what was trained, layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.networks.graph import Architecture
from trainmark.networks.layers import Layer, layers
from trainmark.plan.products import prepared_in
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.record import read_record
from trainmark.tables.tables import GROUP, groups
from trainmark.variant import split_name


@dataclass(frozen=True, eq=False)
class Model:
    """A recipe's network, for the input shape and number of classes that it is trained with here.

    anchor: its HTML id in the page.
    """

    anchor: str
    recipe: Recipe
    architecture: Architecture
    classes: int

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers with output shapes, parameters, and FLOPs of the forward pass of one sample."""
        return layers(self.architecture)


def models(runs: pd.DataFrame, folder: Path, plan: Mapping) -> dict[tuple[str, ...], Model]:
    """The network of each group of `Results.groups`, except commands. Equal networks share one Model.

    folder: the results folder. plan: see `plan_file.read_plan`.

    Raises RecordError or DataError if a record or a dataset's manifest can't be read.
    """
    distinct: dict[tuple, Model] = {}
    by_group = {}
    for values, group in groups(runs[runs["framework"] != FRAMEWORK], GROUP):
        experiment, recipe, dataset = values
        manifest = read_manifest(folder / prepared_in(plan["datasets"][dataset]["folder"]))
        settings = read_record(folder / group["record"].iloc[0])["settings"]
        architecture = ResolvedTraining(RECIPES[recipe], settings, manifest).architecture
        key = (recipe, architecture.input_shape, manifest["classes"], settings.get("dropout"))
        if key not in distinct:
            distinct[key] = Model(f"model-{len(distinct) + 1}", RECIPES[recipe], architecture, manifest["classes"])
        by_group[values] = distinct[key]
        by_group[split_name(experiment)[0], recipe, dataset] = distinct[key]
    return by_group
