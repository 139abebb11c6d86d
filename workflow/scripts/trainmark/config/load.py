"""Reading a config and the dataset catalogue: safely, strictly, and with errors that a person can act on."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trainmark.config.strict_yaml import read_yaml

REPOSITORY = Path(__file__).resolve().parents[4]


def merge(base: dict, over: Mapping) -> dict:
    """`over` put over `base`, mapping by mapping; lists and scalars replace one another."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def as_yaml_values(value: Any) -> Any:
    """The value with texts that stand for true, false, null or a number as these.

    Snakemake leaves `true` in `--config offline=true`, and all within lists and mappings, as text.
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
    """The value with Mappings and sequences of other types (Snakemake's OrderedDict) as dict and list."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def with_defaults(config: Mapping, schema: Mapping) -> dict:
    """A checked config with every key that it leaves out, from the schema. An `input` stays as it was given:
    what it leaves out comes from the recipe.
    """
    filled: dict = {key: deepcopy(part["default"]) for key, part in schema["properties"].items()} | plain(config)
    keys = schema["$defs"]["experiment"]["properties"]
    defaults = {key: part["default"] for key, part in keys.items()}
    filled["experiments"] = {
        name: deepcopy(defaults) | experiment for name, experiment in filled["experiments"].items()
    }
    return filled


@cache
def shipped_files() -> tuple[dict, dict]:
    """(config/schema.yaml, config/datasets.yaml checked), read once a process: callers copy what they hand on."""
    from trainmark.config.catalogue_check import check_catalogue  # it knows formats

    schema = read_yaml(REPOSITORY / "config" / "schema.yaml")
    file = REPOSITORY / "config" / "datasets.yaml"
    catalogue = read_yaml(file)
    check_catalogue(catalogue, file.relative_to(REPOSITORY), schema)
    return schema, catalogue


def keys_that_decide(what: Iterable[str]) -> list[str]:
    """The keys of an experiment that decide one of these, in order: config/schema.yaml says `decides` of each."""
    keys = shipped_files()[0]["$defs"]["experiment"]["properties"]
    return sorted(key for key, part in keys.items() if part["decides"] in what)


def default_config() -> Path:
    """Return config/config.yaml of the working directory or, if it has none, of this repository."""
    file = Path("config", "config.yaml")
    return file if file.exists() else REPOSITORY / file


def load_config(
    files: Iterable[Path],
    overrides: Mapping | None = None,
    overrides_name: str | None = None,
    *,
    fetches: bool = True,
) -> tuple[dict, dict]:
    """(config with defaults, dataset catalogue with the config's own entries), both checked.

    files: config files; a later one is put over an earlier one.
    overrides: values put over all files.
    overrides_name: what error messages call them; None means --config of the command line.
    fetches: whether files are fetched on this machine, so that the mirror is checked: a node of a cluster may lack it.

    Raises ConfigError, one line for each thing that is wrong.
    """
    from trainmark.config.catalogue_check import check_own_datasets
    from trainmark.config.fit_check import check_fit
    from trainmark.config.mirror_check import check_mirror
    from trainmark.config.schema_check import check_config  # they know recipes and frameworks

    schema, shipped = shipped_files()
    documents = {str(file): read_yaml(Path(file)) for file in files}
    if overrides or overrides_name:
        documents[overrides_name or "--config"] = (
            plain(overrides) if overrides_name else as_yaml_values(plain(overrides))
        )
    merged: dict = {}
    for document in documents.values():
        merged = merge(merged, document)
    check_config(merged, documents, schema, shipped)
    if fetches:
        check_mirror(merged, documents)
    own = merged.get("datasets", {})
    catalogue = deepcopy(merge(shipped, own))
    check_own_datasets(catalogue, shipped, own, documents, schema)
    filled = with_defaults(merged, schema)
    check_fit(filled, documents, catalogue)  # after the defaults: a crop may not fit the default recipe
    return filled, catalogue
