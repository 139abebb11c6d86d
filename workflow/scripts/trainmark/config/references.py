"""Reads config/references.yaml: results that others published, to be drawn beside ours."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from trainmark.config.strict_yaml import read_yaml
from trainmark.errors import ConfigError
from trainmark.files.json_schema import violation

REFERENCES = Path(__file__).parents[4] / "config" / "references.yaml"

SCHEMA_FILE = Path(__file__).with_name("references.schema.json")


def read_references(path: Path = REFERENCES) -> list[dict]:
    """Read the published results, in the order of the file.

    Keys of each: see references.schema.json. A loss of NaN is the float NaN: the original reported it.

    Raises ConfigError if the file can't be read, or is not as the schema says.
    """
    document = read_yaml(path)
    if broken := violation(document, SCHEMA_FILE):
        raise ConfigError(f"{path}: {broken}")
    references: list[dict] = document["references"]
    return references


def references_of(group: tuple[str, str, str], references: Iterable[Mapping]) -> list[Mapping]:
    """Return the published results of a group. group: experiment, recipe and dataset."""
    return [one for one in references if (one["recipe"], one["dataset"]) == group[1:]]
