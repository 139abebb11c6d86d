"""What was trained: networks, layer by layer, and settings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from trainmark.datasets.prepared import read_manifest
from trainmark.networks.graph import Architecture
from trainmark.plan.products import prepared_in
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK, metrics_file
from trainmark.recipes.recipe import Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.record import read_record
from trainmark.records.resolved import batch_size_of, input_of, optimizer_of
from trainmark.tables.formatting import counted
from trainmark.tables.frames import groups
from trainmark.tables.sections import Section
from trainmark.variant import GROUP, split_name

IN_WORDS = ("seed", "batch_size", "input", "initial_weights", "optimizer", "optimizer_restarts")
"""Settings that the table of settings describes in words. The other settings are listed there as in the config."""


@dataclass(frozen=True, eq=False)
class Model:
    """A recipe's network, for the input shape and number of classes that it is trained with. anchor: its HTML id."""

    anchor: str
    recipe: Recipe
    architecture: Architecture
    classes: int


def models(runs: pd.DataFrame, folder: Path, plan: Mapping) -> dict[tuple[str, ...], Model]:
    """The network of each group of runs, except commands, by experiment, recipe and dataset. Equal ones share a Model.

    Raises RecordError or DataError if a record or a dataset's manifest can't be read. folder: the results folder.
    """
    distinct: dict[tuple, Model] = {}
    by_group: dict[tuple[str, ...], Model] = {}
    for values, group in groups(runs[runs["framework"] != FRAMEWORK], GROUP):
        experiment, recipe, dataset = values
        manifest = read_manifest(folder / prepared_in(plan["datasets"][dataset]["folder"]))
        settings = read_record(folder / group["record"].iloc[0])["settings"]
        architecture = ResolvedTraining(RECIPES[recipe], settings, manifest).architecture
        key = (recipe, architecture.input_shape, manifest["classes"], settings.get("dropout"))
        new = Model(f"model-{len(distinct) + 1}", RECIPES[recipe], architecture, manifest["classes"])
        by_group[values] = by_group[split_name(experiment)[0], recipe, dataset] = distinct.setdefault(key, new)
    return by_group


def settings_of(section: Section, models: Mapping[tuple[str, ...], Model], folder: Path) -> dict[str, object]:
    """The settings that all runs of a section share; where its variants differ, those of each. folder: the results."""
    of_variants = groups(section.runs, ["variant"]) if section.has_variants else [(("",), section.runs)]
    records = {variant: read_record(folder / runs["record"].iloc[0]) for (variant,), runs in of_variants}
    if section.is_command:
        return _command_settings(records[""])
    of_each = {variant: _settings(record, models[section.group].anchor) for variant, record in records.items()}
    found: dict[str, object] = {}
    for key in dict.fromkeys(key for settings in of_each.values() for key in settings):
        texts = {variant: settings.get(key, "defaults") for variant, settings in of_each.items()}
        each = "; ".join(f"{variant}: {text}" for variant, text in texts.items())
        found[key] = next(iter(texts.values())) if len(set(map(str, texts.values()))) == 1 else each
    return found


def _settings(record: Mapping, anchor: str) -> dict[str, object]:
    """The settings of a run, by their names in the table of settings. anchor: that of its network."""
    network, configured, transform = record["network"], record["settings"], input_of(record)
    constants = optimizer_of(record)
    rule = constants.pop("rule")
    again = configured.get("optimizer_restarts", 0)
    restarts = f", made anew {counted(again, 'time')} within a run, at equal distances" if again else ""
    drawn = (
        f"kernels by {record['inputs']['recipe']['initializer']}, other parameters by constants of their layers; "
        f"drawn by numpy from the seed {configured['seed']} and the number of the repeat"
    )
    trained = configured.get("initial_weights")
    in_words = {
        "architecture": Markup('{}, {:,} parameters (from {}): <a href="#{}">layers</a>').format(
            network["architecture"], network["parameters"], RECIPES[record["run"]["recipe"]].source, anchor
        ),
        "initial weights": f"the trained weights in {trained}, in every repeat" if trained else drawn,
        "optimizer": f"{rule}, {', '.join(f'{name} {value:g}' for name, value in constants.items())}{restarts}",
        "batch size": f"{batch_size_of(record)} samples; numpy draws their order, which is the same in all frameworks",
        "input": _plain(asdict(transform)) if transform else "token ids, as they are stored",
        "arithmetic": network["dtype"],
        "dropout": "each framework draws its own masks" if network["dropout"] else "none",
    }
    others = (key for key, value in configured.items() if key not in IN_WORDS and value not in (None, {}))
    return in_words | {key: _plain(configured[key]) for key in others}


def _plain(value: object) -> object:
    """A setting as text; of a mapping the keys that are set, as in "iterator: thread, store: files"."""
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{key}: {part}" for key, part in value.items() if part is not None) or "defaults"


def _command_settings(record: Mapping) -> dict[str, object]:
    """The command of a run and its settings."""
    command = record["inputs"]["recipe"]
    words = {
        "command": command["command"],
        "files": ", ".join(f"{file['path']} (SHA-256 {file['sha256'][:12]}...)" for file in command["files"]),
        "environment": command["environment"] or command["container"] or "that of snakemake",
        "variables": ", ".join(f"{name}={value}" for name, value in command["variables"].items()),
        "epochs are read from": f"{metrics_file(command['metrics']) or 'its output'} ({command['metrics']['format']})",
        "seed": record["settings"]["seed"],
    }
    return {key: value for key, value in words.items() if value != ""}
