"""Write a config's keys and values in messages: in YAML notation, on one line, and shortened."""

import re
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from math import isfinite
from typing import Any

from trainmark.frameworks.registry import known_frameworks

KeyPath = tuple[Any, ...]
"""The path to a value in a document: keys of mappings and positions in lists."""

LONGEST_SHOWN = 60

TYPE_NAMES = {
    type(None): "nothing", str: "text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", dict: "a mapping",
}  # fmt: skip


def type_name(value: object) -> str:
    """Return the type of a value in plain words."""
    if isinstance(value, float) and not isfinite(value):
        return "no finite number"
    return TYPE_NAMES.get(type(value), "a date" if isinstance(value, date) else type(value).__name__)


def as_yaml(value: object) -> str:
    """Return a value in YAML notation, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_key(key)}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(as_yaml(item) for item in value)}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, float) and not isfinite(value):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(value)]
    return str(value) if isinstance(value, date) else repr(value)


def as_key(key: object) -> str:
    """Return a key in YAML notation, with quotes only if it contains more than letters, digits, _ and -."""
    if isinstance(key, str) and re.fullmatch(r"[\w-]+", key):
        return _shortened(key)
    return _shortened(as_yaml(key))


def _shortened(text: str) -> str:
    """Shorten a text to LONGEST_SHOWN characters. Its last character, the closing quote or bracket, is kept."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 4]}...{text[-1]}"


def format_value(value: object) -> str:
    """Return a value and its type: "3 (a whole number)"."""
    if value is None:
        return "nothing (null)"
    if value in ([], {}):
        return f"an empty {'list' if value == [] else 'mapping'}"
    return f"{_shortened(_without_secrets(as_yaml(value)))} ({type_name(value)})"


def _without_secrets(text: str) -> str:
    """Replace user names, passwords and queries of addresses in a text by "..."."""
    return re.sub(r"(://)[^/\s'\"]*@|(://[^\s'\"?]*\?)[^\s'\"]*", lambda match: f"{match[1] or match[2]}...", text)


def dotted(path: KeyPath, document: object) -> str:
    """Write a key path as experiments.e.epochs[1].

    document: tells positions in lists from keys that are numbers.
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(document, list) else f".{as_key(part)}"
        document = step(document, part)
    return text.removeprefix(".") or "top level"


def step(document: object, part: Any) -> object:
    """Return the value under a key or at a position. Raises LookupError if there is none."""
    if isinstance(document, dict) or (isinstance(document, list) and isinstance(part, int)):
        return document[part]
    raise LookupError(part)


def place(path: KeyPath, document: object) -> list[int]:
    """Return the position of a key path in a document, as a sort key: findings come in the order of the file."""
    positions: list[int] = []
    for part in path:
        positions.append(list(document).index(part) if isinstance(document, dict) else part)
        document = step(document, part)
    return positions


DEVICES_ALSO_CALLED = {"cuda": "gpu", "nvidia": "gpu", "gpus": "gpu", "cpus": "cpu"}


def nearest(value: object, names: Iterable[str]) -> str:
    """Return a hint with the known name that a text probably means ("; did you mean gpu?"), or an empty text."""
    text, known = str(value).lower(), list(names)
    others = {other: one.name for one in known_frameworks().values() for other in one.also_called} | DEVICES_ALSO_CALLED
    if others.get(text) in known:
        return f"; did you mean {others[text]}?"
    near = get_close_matches(text, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near and near[0] != value else ""
