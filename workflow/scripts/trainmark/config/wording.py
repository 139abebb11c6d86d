"""How a config's keys and values are written in messages: as YAML has them, on one line, and short."""

import re
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from math import isfinite
from typing import Any

KeyPath = tuple[Any, ...]
"""Keys and, inside of lists, positions, from the top of a document."""

LONGEST_SHOWN = 60

TYPE_NAMES = {
    type(None): "nothing", str: "text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", dict: "a mapping",
}  # fmt: skip


def type_name(value: object) -> str:
    """What kind of value it is, in words."""
    if isinstance(value, float) and not isfinite(value):
        return "no finite number"
    return TYPE_NAMES.get(type(value), "a date" if isinstance(value, date) else type(value).__name__)


def as_yaml(value: object) -> str:
    """A value on one line, as YAML has it."""
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
    """A key as it stands in YAML, in quotes only where a person could misread it without."""
    if isinstance(key, str) and re.fullmatch(r"[\w-]+", key):
        return _shortened(key)
    return _shortened(as_yaml(key))


def _shortened(text: str) -> str:
    """A text of at most 60 characters; it keeps its last one, the quote or bracket that closes it."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 4]}...{text[-1]}"


def format_value(value: object) -> str:
    """A value and its kind."""
    if value is None:
        return "nothing (null)"
    if value in ([], {}):
        return f"an empty {'list' if value == [] else 'mapping'}"
    return f"{_shortened(_without_secrets(as_yaml(value)))} ({type_name(value)})"


def _without_secrets(text: str) -> str:
    """The text with what may be a password or a key in its addresses left out."""
    return re.sub(r"(://)[^/\s'\"]*@|(://[^\s'\"?]*\?)[^\s'\"]*", lambda found: f"{found[1] or found[2]}...", text)


def dotted(path: KeyPath, document: object) -> str:
    """A key path as experiments.e.epochs[1]; the document tells a list's position from a key that is a number."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(document, list) else f".{as_key(part)}"
        document = step(document, part)
    return text.removeprefix(".") or "top level"


def step(document: object, part: Any) -> object:
    """What stands under a key or at a position. Raises LookupError where nothing does."""
    if isinstance(document, dict) or (isinstance(document, list) and isinstance(part, int)):
        return document[part]
    raise LookupError(part)


def place(path: KeyPath, document: object) -> list[int]:
    """Where a key path stands in a document: to sort by, in the order in which a person wrote it."""
    positions: list[int] = []
    for part in path:
        positions.append(list(document).index(part) if isinstance(document, dict) else part)
        document = step(document, part)
    return positions


OTHER_NAMES = {
    "cuda": "gpu", "nvidia": "gpu", "gpus": "gpu", "cpus": "cpu", "cupy": "chainer", "chainermn": "chainer",
    "torch": "keras-torch", "pytorch": "keras-torch", "keras-pytorch": "keras-torch", "jax": "keras-jax",
    "tensorflow": "keras-tensorflow", "tf": "keras-tensorflow", "keras": "keras-tensorflow",
}  # fmt: skip
"""What people call something that has another name here."""


def nearest(value: object, names: Iterable[str]) -> str:
    """The known name that a text was probably meant to be, as a question; else nothing."""
    text, known = str(value).lower(), list(names)
    if OTHER_NAMES.get(text) in known:
        return f"; did you mean {OTHER_NAMES[text]}?"
    near = get_close_matches(text, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near and near[0] != value else ""
