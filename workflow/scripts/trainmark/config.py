"""Reading a config and the dataset catalogue: safely, strictly, and with errors that a person can act on."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path

import yaml

from trainmark.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parents[3]


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses a key that is given twice; YAML itself lets the last one win."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict:
    seen: dict = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"found the key {key!r} twice (first in line {seen[key]}); allowed: each key once",
                key_node.start_mark,
            )  # fmt: skip
        seen[key] = key_node.start_mark.line + 1
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_yaml(path: Path) -> dict:
    """The mapping in a YAML file (JSON is YAML). Raises ConfigError with the line where it is none."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506 (a SafeLoader)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: {error.problem}") from error
    except (yaml.YAMLError, TypeError) as error:  # TypeError: a list or mapping as a key
        raise ConfigError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: found {type(document).__name__} at the top; allowed: a mapping of keys to values")
    return document


def merge(base: dict, over: Mapping) -> dict:
    """`over` put over `base`, mapping by mapping; lists and scalars replace one another."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def plain(value: object) -> object:
    """The value with Mappings and sequences of other types (Snakemake's OrderedDict) as dict and list."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def with_defaults(config: Mapping, schema: Mapping) -> dict:
    """A checked config with every key that it leaves out, from the schema. An `input` stays as it was given:
    what it leaves out comes from the recipe.
    """
    filled = {key: deepcopy(part["default"]) for key, part in schema["properties"].items()} | plain(config)
    keys = schema["$defs"]["experiment"]["properties"]
    defaults = {key: part["default"] for key, part in keys.items()}
    filled["experiments"] = {
        name: deepcopy(defaults) | experiment for name, experiment in filled["experiments"].items()
    }
    return filled


def load_config(files: Iterable[Path], overrides: Mapping | None = None) -> tuple[dict, dict]:
    """(config with defaults, dataset catalogue), both checked.

    files: config files; a later one is put over an earlier one. overrides: values of the command line, put over all.
    Raises ConfigError, one line for each thing that is wrong.
    """
    from trainmark.config_check import check_catalogue, check_config  # the checks know recipes and frameworks

    schema = read_yaml(REPOSITORY / "config" / "schema.yaml")
    catalogue_file = REPOSITORY / "config" / "datasets.yaml"
    catalogue = read_yaml(catalogue_file)
    check_catalogue(catalogue, catalogue_file.relative_to(REPOSITORY), schema)
    documents = {str(file): read_yaml(Path(file)) for file in files}
    if overrides:
        documents["--config"] = plain(overrides)
    merged: dict = {}
    for document in documents.values():
        merged = merge(merged, document)
    check_config(merged, documents, schema, catalogue)
    return with_defaults(merged, schema), catalogue
