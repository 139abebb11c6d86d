"""Check a config against the schema. Each mistake is one sentence: file, key path, what was found, what is allowed."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema

from trainmark.config.strict_yaml import line_of
from trainmark.config.wording import KeyPath, dotted, format_value, nearest
from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.variant import factors

Error = Any
"""A jsonschema.ValidationError. In jsonschema's own types each of its attributes may be unset, hence Any."""

Finding = tuple[KeyPath, str]
"""The key path of a mistake, and the sentence that describes it."""

# JSON Schema accepts 3.0 as an integer, and NaN, Infinity and 10**400 as numbers. No training can use these.
_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda _, value: type(value) is int,
        "number": lambda _, value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
    }
)
Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_TYPES)  # type: ignore[no-untyped-call]


def check_config(config: Mapping, documents: Mapping[str, Mapping], schema: Mapping, catalogue: Mapping) -> None:
    """Raise ConfigError with one line for each mistake in a merged config.

    documents: the files that the config was merged from, by name. Messages name the file that contains a wrong key.
    """
    own = config.get("datasets")
    datasets = [*catalogue, *(name for name in own if name not in catalogue)] if isinstance(own, Mapping) else catalogue
    raise_findings(schema_findings(config, _with_names(schema, datasets)), documents)


def raise_findings(findings: Iterable[Finding], documents: Mapping[str, Mapping]) -> None:
    """Raise ConfigError with a line for each finding, in the order of the files. Without findings, do nothing."""
    lines = sorted((*_place_of(path, documents), f"{dotted(path)}: {sentence}") for path, sentence in findings)
    if lines:
        texts = (f"{file}{f', line {line}' if line else ''}: {text}" for file, line, text in lines)
        raise ConfigError("\n".join(dict.fromkeys(texts)))  # two rules of the schema may find the same mistake


def _place_of(path: KeyPath, documents: Mapping[str, Mapping]) -> tuple[str, int]:
    """Return the document with the longest part of a key path, and the line in it, or 0.

    Of several documents it is the last one, which takes precedence; the first one lacks a key that all lack.
    """
    depths = {name: _depth(path, document) for name, document in documents.items()}
    deepest = max(depths.values(), default=0)
    names = [name for name, depth in depths.items() if depth == deepest] or ["no config file"]
    name = names[-1] if deepest else names[0]
    return name, line_of(Path(name), path) or 0


def _depth(path: KeyPath, document: Any) -> int:
    """Return how much of a key path a document has."""
    for depth, part in enumerate(path):
        try:
            document = document[part]
        except (LookupError, TypeError):
            return depth
    return len(path)


def _with_names(schema: Mapping, datasets: Iterable[str]) -> Mapping:
    """Return the schema with the known names of recipes, datasets and frameworks, and with the keys of variants."""
    schema = deepcopy(schema)
    keys = schema["$defs"]["experiment"]["properties"]
    for key, names in {"recipes": RECIPES, "datasets": datasets, "frameworks": known_frameworks()}.items():
        keys[key]["items"] = {"enum": list(names)}
    schema["properties"]["prepare"]["items"] = {"enum": list(datasets)}
    varied = settings_of_variants(schema)
    keys["variants"]["additionalProperties"]["properties"] = varied | {"workers": keys["workers"]}
    keys["grid"]["properties"] = {factor: _levels(varied, *path) for factor, path in factors(varied).items()}
    return schema


def settings_of_variants(schema: Mapping) -> dict[str, Mapping]:
    """Return the parts of the schema that decide a training, but for its seed."""
    keys = schema["$defs"]["experiment"]["properties"]
    return {key: part for key, part in keys.items() if part["decides"] == "training" and key != "seed"}


def _levels(settings: Mapping, key: str, *inner: str) -> dict:
    """Return the schema of the levels of a factor. key, inner: its path."""
    level = settings[key]["properties"][inner[0]] if inner else settings[key]
    allowed = f"a list of two or more, each {_allowed(level)}"
    return {"type": "array", "minItems": 2, "uniqueItems": True, "items": level, "allowed": allowed}


# --- findings of JSON Schema, as sentences ----------------------------------------------------------------------


def schema_findings(document: Mapping, schema: Mapping) -> Iterator[Finding]:
    """Yield a finding for each mistake that a JSON schema finds in a document."""
    for error in Validator(schema).iter_errors(document):
        yield from _sentences(error)


def _sentences(error: Error) -> Iterator[Finding]:
    if "propertyNames" in error.absolute_schema_path:
        allowed = "text of lower-case letters, digits and hyphens, 40 at most"
        yield tuple(error.absolute_path), f"found the name {format_value(error.instance)}; allowed: {allowed}"
    else:
        yield from SENTENCES.get(error.validator, _not_allowed)(error)


def _unknown_keys(error: Error) -> Iterator[Finding]:
    known = list(error.schema["properties"])
    for key in error.instance:
        if key not in known:
            yield (*error.absolute_path, key), f"unknown key; allowed: {', '.join(known)}{nearest(key, known)}"


def _missing_keys(error: Error) -> Iterator[Finding]:
    for key in error.validator_value:
        if key not in error.instance:
            allowed = _allowed(error.schema["properties"][key])
            yield tuple(error.absolute_path), f"lacks the key {key}; allowed: {allowed}"


def _twice(error: Error) -> Iterator[Finding]:
    values = error.instance
    twice = next(value for i, value in enumerate(values) if value in values[:i])
    yield tuple(error.absolute_path), f"found {format_value(twice)} twice; allowed: each value once"


def _one_of(error: Error) -> Iterator[Finding]:
    if all("required" in alternative for alternative in error.validator_value):
        yield from _one_key_of(error, [alternative["required"][0] for alternative in error.validator_value])
        return
    # The alternative that allows a list can say which item is wrong.
    inside = [part for part in error.context if part.path or part.validator == "uniqueItems"]
    for part in inside:
        yield from _sentences(part)
    if not inside:
        yield from _not_allowed(error)


def _one_key_of(error: Error, keys: list[str]) -> Iterator[Finding]:
    if isinstance(error.instance, dict):  # any other type has a finding of its own
        present = [key for key in keys if key in error.instance]
        what = f"found both {' and '.join(present)}" if present else f"lacks the key {' or '.join(keys)}"
        or_both = ", or both" if error.validator == "anyOf" else ""
        yield tuple(error.absolute_path), f"{what}; allowed: one of them{or_both}"


def _not_allowed(error: Error) -> Iterator[Finding]:
    schema, value = error.schema, error.instance
    yield tuple(error.absolute_path), f"found {format_value(value)}; allowed: {_allowed(schema)}{_hint(value, schema)}"


def _allowed(schema: Mapping) -> str:
    """Return what a part of a schema allows: its `allowed` text, or the list of its choices."""
    return schema.get("allowed") or ", ".join(str(choice) for choice in schema.get("enum", []))


SENTENCES = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "uniqueItems": _twice,
    "oneOf": _one_of,
    "anyOf": _one_of,
}


def _hint(value: object, schema: Mapping) -> str:
    """Return a hint on how to write a value that is correct except for its notation, or on the nearest choice."""
    rule = Validator(schema)
    if isinstance(value, str | int) and rule.is_valid([value]):
        return f"; write [{value}]"
    for number in (int, float):
        with suppress(ValueError, TypeError):
            if isinstance(value, str) and rule.is_valid(number(value)):
                return "; a number has no quotes, and its exponent needs a point before it and a sign, as in 1.0e-3"
    parts = [schema, *schema.get("oneOf", [])]
    return nearest(value, [str(choice) for part in parts for choice in part.get("enum", [part.get("const", "")])])
