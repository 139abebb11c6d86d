"""Read YAML files. A key that stands twice is refused, and each mistake is one sentence with the line."""

from pathlib import Path
from typing import Any

import yaml

from trainmark.config.wording import KeyPath, type_name
from trainmark.errors import ConfigError, why


class StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses duplicate keys. PyYAML itself silently keeps the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse duplicate keys. They are checked here because the keys of a merge (<<) are added later."""
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if line := lines.get(str(key.value)):
                problem = f"found the key {key.value!r} twice (first in line {line}); allowed: each key once"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[str(key.value)] = key.start_mark.line + 1
        return node


def read_yaml(path: Path) -> dict:
    """Read the mapping in a YAML or JSON file. Raises ConfigError, with the line, if the file is not valid."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), StrictLoader)  # noqa: S506 (a SafeLoader)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read {why(error)}") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(document, dict | None):
        raise ConfigError(f"{path}: found {type_name(document)} at the top; allowed: a mapping of keys to values")
    return document or {}


def line_of(path: Path, keys: KeyPath) -> int | None:
    """Return the line of a YAML file that contains the longest prefix of a key path, or None.

    None means that the file cannot be read or does not contain the first key.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), StrictLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for key in keys:
        inside: dict = {}
        if isinstance(node, yaml.SequenceNode):
            inside = {i: (item, item) for i, item in enumerate(node.value)}
        elif isinstance(node, yaml.MappingNode):
            inside = {name.value: (name, value) for name, value in node.value}
        key = key if isinstance(node, yaml.SequenceNode) else str(key)
        if key not in inside:
            break
        place, node = inside[key]
        line = place.start_mark.line + 1
    return line
