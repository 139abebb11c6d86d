"""Read YAML safely and strictly: no tags that run code, no duplicate keys, and one sentence for each mistake."""

import re
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from trainmark.config.wording import KeyPath, type_name
from trainmark.errors import ConfigError

KINDS = {yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}
NULL_TAG = "tag:yaml.org,2002:null"

IN_OUR_WORDS = [
    (r"found character '\\t' that cannot start any token", "found a tab; indent with spaces"),
    (r"found character ('.') that cannot start any token", r"found \1; text that begins with it needs quotes"),
    (r"mapping values are not allowed here", r"\g<0>; text with ': ' in it needs quotes"),
    (r"but found another document", "found a second document (---); allowed: one"),
    (
        r"could not determine a constructor for the tag '(.*)'",
        r"found the tag \1; allowed: plain YAML without such tags",
    ),
]
"""Messages of PyYAML that do not say what to do (regular expressions), and our replacements for them."""


MOST_VALUES = 100_000
"""The most values a file may have with every alias (*name) expanded: a few short lines can expand to billions."""


MOST_BYTES = 1_000_000
"""The largest size of a file: PyYAML reads about half a megabyte per second."""


OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[0-9_]+(:[0-9_]+)+(\.[0-9_]*)?)")
"""Numbers that YAML 1.1 reads with base 8 (010 is 8) or 60 (1:30 is 90), which hardly anybody means."""


LONG_TEXT = 1000
"""A text counts as one more value for every LONG_TEXT characters."""


class StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses duplicate keys and aliases that expand to more than MOST_VALUES.

    PyYAML itself silently keeps the last one of duplicate keys.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Return the root node. The size is checked here, before any value is constructed."""
        node: yaml.Node | None = super().get_single_node()
        if node and _values(node, {}) > MOST_VALUES:
            raise _error(f"its values with every alias written out are more than {MOST_VALUES:,}; allowed: fewer", node)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse duplicate keys. They are checked here because the keys of a merge (<<) are added later."""
        node = super().compose_mapping_node(anchor)
        first_line: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _error(f"found {KINDS[type(key)]} as a key; allowed: a name", key)
            if key.tag == NULL_TAG:
                raise _error("found nothing (null) as a key; allowed: a name", key)
            if line := first_line.get((key.tag, key.value)):
                raise _error(f"found the key {key.value!r} twice (first in line {line}); allowed: each key once", key)
            first_line[key.tag, key.value] = key.start_mark.line + 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Explain text that looks like a date or a number but is not one (2017-13-45).

        PyYAML lets Python's error through. A number in another base (010) is refused.
        """
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int | float) and OTHER_BASE.fullmatch(node.value):
                said = f"found {node.value}, which YAML reads as {value}"
                raise _error(f"{said}; write a number without leading zeros or colons, and text in quotes", node)
            return value
        except (ValueError, LookupError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _error(f"found {node.value!r}, which is no {kind}; as text it needs quotes", node) from error


# With deep, PyYAML refuses a value that contains itself (a: &a {b: *a}); its own constructor would return it.
StrictLoader.add_constructor(StrictLoader.DEFAULT_MAPPING_TAG, partial(StrictLoader.construct_mapping, deep=True))


def _error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node with every alias expanded.

    known: counts by id of the node. A node inside itself counts 1; it is refused later.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value) // LONG_TEXT
    if id(node) not in known:
        known[id(node)] = 1
        inner = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] += sum(_values(child, known) for child in inner)
    return known[id(node)]


def read_yaml(path: Path) -> dict:
    """Read the mapping in a YAML or JSON file. Raises ConfigError, with the line, if the file is not valid."""
    document = parse_yaml(read_text(path), path)
    return {} if document is None else as_mapping(document, path)


def as_mapping(document: object, path: Path) -> dict:
    """Return the content of a file. Raises ConfigError if it is no mapping."""
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: found {type_name(document)} at the top; allowed: a mapping of keys to values")
    return document


def line_of(path: Path, keys: KeyPath) -> int | None:
    """Return the line of a YAML file that contains the longest prefix of a key path, or None.

    None means that the file cannot be read or does not contain the first key.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), StrictLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    line = None
    for key in keys:
        if isinstance(node, yaml.SequenceNode):
            if key not in range(len(node.value)):
                break
            node = place = node.value[key]
        else:
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            pair = next((pair for pair in pairs if pair[0].value == str(key)), None)
            if pair is None:
                break
            place, node = pair
        line = place.start_mark.line + 1
    return line


def read_text(path: Path) -> str:
    """Read a text file. Raises ConfigError if it is too large, no file or no UTF-8."""
    try:
        if (size_bytes := path.stat().st_size) > MOST_BYTES:
            raise ConfigError(f"{path}: found {size_bytes:,} bytes; allowed: at most {MOST_BYTES:,}")
        if not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: found no file, but a device or a pipe; allowed: a file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path}: found a folder; allowed: a file") from error
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8") from error


def parse_yaml(text: str, path: Path, loader: type[StrictLoader] = StrictLoader) -> object:
    """Parse the text of a file. Raises ConfigError, with the line, if it is not valid."""
    try:
        return yaml.load(text, loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: {_problem(error)}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid YAML (nested too deeply)") from error


def _problem(error: yaml.MarkedYAMLError) -> str:
    """Return what is wrong, in our words or in PyYAML's; to PyYAML's the construct is added in which it happened."""
    problem = str(error.problem).replace("tag:yaml.org,2002:", "!!")
    for theirs, ours in IN_OUR_WORDS:
        if match := re.fullmatch(theirs, problem):
            return match.expand(ours)
    if error.context and error.context_mark:
        return f"{problem} ({error.context}, begun in line {error.context_mark.line + 1})"
    return problem
