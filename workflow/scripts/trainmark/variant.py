"""Variants: named sets of settings of one experiment, or the cells of its grid. Each is trained like an experiment.

How a variant is written in paths, tables and texts is decided here.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import yaml

SEPARATOR = "."
"""Between the names of an experiment and a variant, and between the factors of a cell. No other name contains it."""

NAMED_AFTER = " with "
"""Between the framework and the variant in the name of a trainer."""


Group = tuple[str, str, str]
"""Experiment, recipe and dataset."""

GROUP = ["experiment", "recipe", "dataset"]
"""The keys, and columns of tables, that identify a group of runs: a section of the report, and its certificate."""


def variant_name(experiment: str, variant: str) -> str:
    """The name under which a variant is trained: "optimizers.adam"."""
    return f"{experiment}{SEPARATOR}{variant}"


def split_name(name: str) -> tuple[str, str]:
    """(experiment, variant) of the name of an experiment; the variant of one without variants is ""."""
    experiment, _, variant = name.partition(SEPARATOR)
    return experiment, variant


def factors(settings: Mapping[str, Mapping]) -> dict[str, tuple[str, ...]]:
    """Return the key path of each setting that a grid can vary, by its last key: {"learning_rate": ("optimizer", ...)}.

    Lists and free texts are left out, because a value is part of a path.

    settings: the parts of the schema that a variant can set.
    """
    nested = {(key, name): part for key, own in settings.items() for name, part in own.get("properties", {}).items()}
    paths = {(key,): part for key, part in settings.items()} | nested
    return {path[-1]: path for path, part in paths.items() if not {"object", "array", "string"} & _types(part)}


def _types(part: Mapping) -> set[str]:
    """Return the types that a part of the schema allows."""
    types = (one.get("type", []) for one in (part, *part.get("oneOf", [])))
    return {name for of_one in types for name in ([of_one] if isinstance(of_one, str) else of_one)}


def with_cells(experiment: Mapping, paths: Mapping[str, tuple[str, ...]]) -> dict:
    """Return an experiment with the cells of its grid among its variants. paths: see `factors`."""
    grid = experiment.get("grid") or {}
    cells: dict[str, dict] = {}
    for levels in product(*grid.values()) if grid else ():
        cell = cells.setdefault(cell_name(dict(zip(grid, map(_as_text, levels), strict=True))), {})
        for factor, level in zip(grid, levels, strict=True):
            *outer, key = paths[factor]
            within = cell.setdefault(outer[0], dict(experiment.get(outer[0], {}))) if outer else cell
            within[key] = level
    return {**experiment, "variants": {**experiment.get("variants", {}), **cells}} if cells else dict(experiment)


def _as_text(level: Any) -> str:
    """Write a number, a word, true, false or null as a config does."""
    return yaml.safe_dump(level).splitlines()[0]


def cell_name(levels: Mapping[str, str]) -> str:
    """Return the name of a cell: "learning_rate-0.01.batch_size-32"."""
    return SEPARATOR.join(f"{factor}-{level}" for factor, level in levels.items())


def levels_of(variant: str) -> dict[str, str]:
    """Return the levels in the name of a cell, by factor; {} for any other variant, as in a grid of one factor."""
    parts = re.split(rf"{re.escape(SEPARATOR)}(?=[a-z])", variant)  # a digit follows the point of a number
    return dict(part.split("-", 1) for part in parts) if len(parts) > 1 else {}


def expanded(experiments: Mapping[str, Mapping]) -> dict[str, dict]:
    """Return the experiments with each variant as an experiment of its own; its settings replace the experiment's."""
    found: dict[str, dict] = {}
    for name, experiment in experiments.items():
        common = {key: value for key, value in experiment.items() if key != "variants"}
        variants = experiment.get("variants") or {"": {}}
        found |= {variant_name(name, variant) if variant else name: common | own for variant, own in variants.items()}
    return found


def collapsed(experiments: Mapping[str, Mapping]) -> dict[str, dict]:
    """Return experiments as a config writes them, from `expanded` ones: what their variants share, and `variants`.

    One with a grid has the settings of its first cell, which the grid replaces.
    """
    found: dict[str, dict] = {}
    for name, variants in _by_experiment(experiments).items():
        first, *others = variants.values()
        if first.get("grid"):
            found[name] = first
            continue
        varied = [key for key in first if any(other[key] != first[key] for other in others)]
        found[name] = {key: value for key, value in first.items() if key not in varied}
        if "" not in variants:
            own = {variant: {key: settings[key] for key in varied} for variant, settings in variants.items()}
            found[name]["variants"] = own
    return found


def _by_experiment(experiments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of `expanded` experiments by experiment and variant."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in experiments.items():
        experiment, variant = split_name(name)
        found.setdefault(experiment, {})[variant] = value
    return found


def drawn_groups(groups: Iterable[Group]) -> set[Group]:
    """Return the groups that have figures: these, and that of each experiment whose variants are among them."""
    known = set(groups)
    return known | {(split_name(experiment)[0], recipe, dataset) for experiment, recipe, dataset in known}


def written_path(path: tuple, experiments: Mapping[str, Mapping]) -> tuple:
    """Return the key path of a setting of an `expanded` experiment, in the config as it was written."""
    if path[:1] != ("experiments",) or len(path) < 2:
        return path
    experiment, variant = split_name(path[1])
    if factor := next((part for part in path[2:] if part in experiments[experiment].get("grid", {})), None):
        return ("experiments", experiment, "grid", factor)
    own = experiments[experiment].get("variants", {}).get(variant, {})
    return ("experiments", experiment, *(("variants", variant) if path[2:] and path[2] in own else ()), *path[2:])
