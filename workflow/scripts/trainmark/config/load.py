"""Read a config and the dataset catalogue safely and strictly, with errors that say what to change."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trainmark.config.strict_yaml import read_yaml
from trainmark.recipes.command import OF_RECIPES
from trainmark.recipes.own import read_networks, register
from trainmark.variant import expanded, factors, with_cells, written_path

REPOSITORY = Path(__file__).resolve().parents[4]


def merge(base: dict, over: Mapping) -> dict:
    """Return `base` updated with `over`. Mappings are merged key by key; lists and scalars are replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def as_yaml_values(value: Any) -> Any:
    """Convert every text that YAML would read as true, false, null or a number to that value.

    Snakemake passes `true` in `--config offline=true`, and everything inside lists and mappings, as text.
    """
    if isinstance(value, dict):
        return {key: as_yaml_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_yaml_values(item) for item in value]
    if isinstance(value, str) and value.strip():
        with suppress(yaml.YAMLError):
            scalar = yaml.safe_load(value)
            return scalar if scalar is None or isinstance(scalar, bool | int | float) else value
    return value


def plain(value: object) -> Any:
    """Convert mappings and sequences of other types, such as Snakemake's OrderedDict, to dict and list."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def with_defaults(config: Mapping, schema: Mapping) -> dict:
    """Add the missing keys to a checked config, with the defaults of the schema.

    The keys of `input` are not filled in: what is missing there comes from the recipe.
    """
    filled: dict = {key: deepcopy(part["default"]) for key, part in schema["properties"].items()} | plain(config)
    defaults = _defaults(schema, "experiment")
    filled["experiments"] = {
        name: merge(deepcopy(defaults) | _without_recipes(experiment), experiment)
        for name, experiment in filled["experiments"].items()
    }
    metrics = schema["$defs"]["command"]["properties"]["metrics"]["properties"]
    for experiment in filled["experiments"].values():
        for name, command in experiment["commands"].items():
            command = deepcopy(_defaults(schema, "command")) | command
            command["environment"] = command["environment"] and os.path.expanduser(command["environment"])
            command["metrics"] = {key: deepcopy(part["default"]) for key, part in metrics.items()} | command["metrics"]
            experiment["commands"][name] = command
    return filled


def _defaults(schema: Mapping, kind: str) -> dict:
    return {key: part["default"] for key, part in schema["$defs"][kind]["properties"].items()}


def _without_recipes(experiment: Mapping) -> dict[str, list]:
    """Return empty lists of recipes, datasets and frameworks for an experiment that names commands instead."""
    alone = experiment.get("commands") and not set(OF_RECIPES) & set(experiment)
    return {key: [] for key in OF_RECIPES} if alone else {}


@cache
def shipped_files() -> tuple[dict, dict]:
    """Return (config/schema.yaml, config/datasets.yaml); the second is checked.

    Both are read once per process. A caller that changes one must copy it first.
    """
    from trainmark.config.catalogue_check import check_catalogue  # imports the formats

    schema = read_yaml(REPOSITORY / "config" / "schema.yaml")
    file = REPOSITORY / "config" / "datasets.yaml"
    catalogue = read_yaml(file)
    check_catalogue(catalogue, file.relative_to(REPOSITORY), schema)
    return schema, catalogue


def keys_that_decide(what: Iterable[str]) -> list[str]:
    """Return the sorted keys of an experiment whose `decides` in config/schema.yaml is one of `what`."""
    keys = shipped_files()[0]["$defs"]["experiment"]["properties"]
    return sorted(key for key, part in keys.items() if part["decides"] in what)


def default_settings() -> dict:
    """Return the defaults of an experiment's keys."""
    return _defaults(shipped_files()[0], "experiment")


def default_config() -> Path:
    """Return config/config.yaml of the working directory or, if it has none, of this repository."""
    file = Path("config", "config.yaml")
    return file if file.exists() else REPOSITORY / file


def read_documents(
    files: Iterable[Path], overrides: Mapping | None = None, overrides_name: str | None = None
) -> dict[str, Any]:
    """Return the config files and the overrides, by the names that messages call them (see `load_config`)."""
    documents = {str(file): read_yaml(Path(file)) for file in files}
    if overrides or overrides_name:
        documents[overrides_name or "--config"] = (
            plain(overrides) if overrides_name else as_yaml_values(plain(overrides))
        )
    return documents


def load_config(
    files: Iterable[Path],
    overrides: Mapping | None = None,
    overrides_name: str | None = None,
    *,
    fetches: bool = True,
) -> tuple[dict, dict]:
    """Return (config with defaults, dataset catalogue with the config's own entries), both checked.

    files: config files; a later one overrides an earlier one.
    overrides: values that override all files.
    overrides_name: what error messages call the overrides; None means --config of the command line.
    fetches: whether this machine fetches files. If so, the mirror is checked; a cluster node may have no access to it.

    Raises ConfigError with one line for each mistake.
    """
    from trainmark.config import checks  # this and the next two import recipes and frameworks
    from trainmark.config.catalogue_check import check_own_datasets
    from trainmark.config.schema_check import check_config, raise_findings, settings_of_variants

    schema, shipped = shipped_files()
    documents = read_documents(files, overrides, overrides_name)
    merged: dict = {}
    for document in documents.values():
        merged = merge(merged, document)
    files_of_own = merged.get("networks")
    if not isinstance(files_of_own, list) or not all(isinstance(file, str) for file in files_of_own):
        files_of_own = []  # which check_config says
    register(read_networks(files_of_own))
    check_config(merged, documents, schema, shipped)
    if fetches:
        checks.check_mirror(merged, documents)
    own = merged.get("datasets", {})
    catalogue = deepcopy(merge(shipped, own))
    check_own_datasets(catalogue, shipped, own, documents, schema)
    paths = factors(settings_of_variants(schema))
    experiments = {name: with_cells(one, paths) for name, one in merged.get("experiments", {}).items()}
    written = with_defaults(merged | {"experiments": experiments}, schema)
    filled = with_defaults(merged | {"experiments": expanded(experiments)}, schema)
    for experiment in filled["experiments"].values():
        del experiment["variants"]  # each is an experiment of its own
        if not experiment["grid"]:
            del experiment["grid"]
    # After the defaults, because a crop may not fit the default recipe.
    found = checks.findings(filled, catalogue, _defaults(schema, "experiment"))
    in_config = [(written_path(path, written["experiments"]), sentence) for path, sentence in found]
    raise_findings([*checks.variant_findings(written), *in_config], documents)
    return filled, catalogue
