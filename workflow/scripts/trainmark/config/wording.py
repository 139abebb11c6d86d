"""Write a config's keys and values in messages."""

import re
from collections.abc import Iterable
from datetime import date
from math import isfinite
from typing import Any

import yaml

from trainmark.errors import did_you_mean
from trainmark.frameworks.registry import known_frameworks

KeyPath = tuple[Any, ...]
"""The path to a value in a document: keys of mappings and positions in lists."""

LONGEST_SHOWN = 60

TYPE_NAMES = {
    type(None): "nothing", str: "text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", dict: "a mapping", date: "a date",
}  # fmt: skip

DEVICES_ALSO_CALLED = {"cuda": "gpu", "nvidia": "gpu", "gpus": "gpu", "cpus": "cpu"}


def type_name(value: object) -> str:
    """Return the type of a value in plain words."""
    if isinstance(value, float) and not isfinite(value):
        return "no finite number"
    return TYPE_NAMES.get(type(value), type(value).__name__)


def format_value(value: object) -> str:
    """Return a value, shortened, and its type: "3 (a whole number)"."""
    if value is None:
        return "nothing (null)"
    if value in ([], {}):
        return f"an empty {'list' if value == [] else 'mapping'}"
    if isinstance(value, str):
        shown = repr(value)
    else:
        shown = yaml.safe_dump(value, default_flow_style=True, width=1_000_000).split("\n")[0]
    # User names, passwords and queries of addresses are secrets.
    shown = re.sub(r"(://)[^/\s'\"]*@|(://[^\s'\"?]*\?)[^\s'\"]*", lambda match: f"{match[1] or match[2]}...", shown)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[: LONGEST_SHOWN - 4]}...{shown[-1]}"  # the last one is the closing quote or bracket
    return f"{shown} ({type_name(value)})"


def dotted(path: KeyPath) -> str:
    """Write a key path as experiments.e.epochs[1]."""
    parts = (f"[{part}]" if type(part) is int else f".{part}" for part in path)
    return "".join(parts).removeprefix(".") or "top level"


def nearest(value: object, names: Iterable[str]) -> str:
    """Return a hint with the known name that a config's text probably means, or an empty text."""
    others = {other: one.name for one in known_frameworks().values() for other in one.also_called}
    return did_you_mean(value, names, others | DEVICES_ALSO_CALLED)
