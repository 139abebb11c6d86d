"""Check a config against the schema. Each mistake is one sentence: file, key path, what was found, what is allowed."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from trainmark.config.strict_yaml import StrictLoader, line_of
from trainmark.config.wording import KeyPath, as_yaml, dotted, format_value, nearest, place, step
from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import OF_RECIPES

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
    raise_findings(schema_findings(config, _with_names(schema, datasets)), config, documents)


def raise_findings(findings: Iterable[Finding], config: Mapping, documents: Mapping[str, Mapping]) -> None:
    """Raise ConfigError with a line for each finding, in the order of the config. Without findings, do nothing."""
    findings = sorted(findings, key=lambda finding: place(finding[0], config))
    lines = [f"{_place_of(path, documents)}: {dotted(path, config)}: {sentence}" for path, sentence in findings]
    if lines:
        raise ConfigError("\n".join(dict.fromkeys(lines)))  # two rules of the schema may find the same mistake


def _place_of(path: KeyPath, documents: Mapping[str, Mapping]) -> str:
    """Return the file and, if it exists, the line: "my.yaml, line 7"."""
    file = _file_of(path, documents)
    line = line_of(Path(file), path) if path else None
    return f"{file}, line {line}" if line else file


def _file_of(path: KeyPath, documents: Mapping[str, Mapping]) -> str:
    """Return the config file that contains the longest prefix of the key path.

    If several do, return the last one, because it takes precedence.
    """

    def depth(document: object) -> int:
        for length, part in enumerate(path):
            try:
                document = step(document, part)
            except LookupError:
                return length
        return len(path)

    depths = {file: depth(document) for file, document in documents.items()}
    deepest = max(depths.values(), default=0)
    files = [file for file, reached in depths.items() if reached == deepest] or ["no config file"]
    return files[-1] if deepest else files[0]  # a key that no file has is missing from the first one


def _of_variants(keys: Mapping[str, dict]) -> dict[str, Mapping]:
    """Return the part of the schema for the keys of a variant: those of an experiment, some of which are refused."""
    settings = [key for key, part in keys.items() if part["decides"] == "training" and key != "seed"]
    varied = [*settings, "workers"]
    for key in settings:
        for part in (keys[key], *keys[key].get("properties", {}).values()):
            part["hint"] = "; to compare several, make each a variant (docs/variants.md)"
    for_variants = f"; allowed in a variant: {', '.join(varied)}"

    def refused(part: Mapping) -> dict:
        decides_nothing = part["decides"] in ("report", "nothing")
        why = "decides nothing of a training" if decides_nothing else "belongs to the experiment, to all its variants"
        return {"not": {}, "allowed": why + for_variants}

    return {key: deepcopy(part) if key in varied else refused(part) for key, part in keys.items()}


# --- findings of JSON Schema, as sentences ----------------------------------------------------------------------


def _with_names(schema: Mapping, datasets: Iterable[str]) -> Mapping:
    """Return the schema with the known names of recipes, datasets and frameworks as allowed values."""
    schema = deepcopy(schema)
    keys = schema["$defs"]["experiment"]["properties"]
    for key, names in {"recipes": RECIPES, "datasets": datasets, "frameworks": known_frameworks()}.items():
        keys[key]["items"] = {"enum": list(names)}
    schema["properties"]["prepare"]["items"] = {"enum": list(datasets)}
    keys["variants"]["additionalProperties"]["properties"] = _of_variants(keys)
    return schema


def schema_findings(document: Mapping, schema: Mapping) -> Iterator[Finding]:
    """Yield a finding for each mistake that a JSON schema finds in a document."""
    for error in Validator(schema).iter_errors(document):
        hint = _may_be_left_out(error, document, schema)
        yield from ((path, text + hint) for path, text in _sentences(error) if _stands_in(document, path))


def _stands_in(document: object, path: Iterable[object]) -> bool:
    """Return whether the document has this path.

    jsonschema also reports paths inside a key that is null. They do not exist, and the null has a finding of its own.
    """
    try:
        reduce(step, path, document)
    except LookupError:
        return False
    return True


def _sentences(error: Error) -> Iterator[Finding]:
    if "propertyNames" in error.absolute_schema_path:
        return _bad_name(error)
    return SENTENCES.get(error.validator, _not_allowed)(error)


def _unknown_keys(error: Error) -> Iterator[Finding]:
    known = [key for key, part in error.schema["properties"].items() if "not" not in part]
    for key in error.instance:
        if key not in known:
            yield (*error.absolute_path, key), f"unknown key; allowed: {', '.join(known)}{nearest(key, known)}"


def _not_varied(error: Error) -> Iterator[Finding]:
    yield tuple(error.absolute_path), error.schema["allowed"]


def _missing_keys(error: Error) -> Iterator[Finding]:
    for key in error.validator_value:
        if key not in error.instance:
            yield (
                tuple(error.absolute_path),
                f"lacks the key {key}; allowed: {_allowed(error.schema['properties'][key])}",
            )


def _twice(error: Error) -> Iterator[Finding]:
    values = error.instance
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    yield tuple(error.absolute_path), f"found {format_value(twice[0])} twice; allowed: each value once"


def _bad_name(error: Error) -> Iterator[Finding]:
    name = error.instance
    needs_quotes = not isinstance(name, str | None) and re.search(error.schema["pattern"], as_yaml(name))
    hint = "; write it in quotes" if needs_quotes else ""  # YAML reads 2017 as a number and on as true
    yield (
        (*error.absolute_path, name),
        f"found the name {format_value(name)}; allowed: lower-case letters, digits and hyphens, 40 at most{hint}",
    )


def _one_of(error: Error) -> Iterator[Finding]:
    alternatives = error.validator_value
    outer = len(error.absolute_path)
    inside = [part for part in error.context if len(part.absolute_path) > outer or part.validator == "uniqueItems"]
    if all("required" in alternative for alternative in alternatives):
        yield from _one_key_of(error, [alternative["required"][0] for alternative in alternatives])
    elif inside:  # the alternative that allows a list can say which item is wrong
        for part in inside:
            for path, sentence in _sentences(part):
                yield path, sentence + _outside_of_a_list(part.instance, error)
    else:
        yield from _not_allowed(error)


def _one_key_of(error: Error, keys: list[str]) -> Iterator[Finding]:
    if isinstance(error.instance, dict):  # any other type has a finding of its own
        present = [key for key in keys if key in error.instance]
        what = f"found both {' and '.join(present)}" if present else f"lacks the key {' or '.join(keys)}"
        or_both = ", or both" if error.validator == "anyOf" else ""
        yield tuple(error.absolute_path), f"{what}; allowed: one of them{or_both}"


def _not_allowed(error: Error) -> Iterator[Finding]:
    schema, value = error.schema, error.instance
    hint = _other_form(value, schema) or nearest(value, _choices(schema))
    if isinstance(value, list) and len(value) > 1 and all(Validator(schema).is_valid(item) for item in value):
        hint = schema.get("hint", "")
    yield tuple(error.absolute_path), f"found {format_value(value)}; allowed: {_allowed(schema)}{hint}"


def _allowed(schema: Mapping) -> str:
    """Return what a part of a schema allows: its `allowed` text, or the list of its choices."""
    return schema.get("allowed") or ", ".join(str(choice) for choice in schema.get("enum", []))


SENTENCES = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "uniqueItems": _twice,
    "oneOf": _one_of,
    "anyOf": _one_of,
    "not": _not_varied,
}


# --- hints --------------------------------------------------------------------------------------------------------


def _choices(schema: Mapping) -> list[str]:
    """Return the words that a schema, or an alternative of its oneOf, allows."""
    parts = [schema, *schema.get("oneOf", [])]
    words = [word for part in parts for word in [*part.get("enum", []), *([part["const"]] if "const" in part else [])]]
    return [str(word) for word in words]


def _other_form(value: object, schema: Mapping) -> str:
    """Return a hint on how to write a value that is correct except for its notation, or an empty text."""
    rule = Validator(schema)
    if isinstance(value, str | int) and rule.is_valid([value]):
        return f"; write [{value}]"
    if not isinstance(value, str) or not value:
        return ""
    bare = _without_quotes(value)
    if not isinstance(bare, str | dict) and rule.is_valid(bare):
        return "; write it without quotes"
    with suppress(ValueError):
        if rule.is_valid(float(value)):
            return "; a number's exponent needs a point before it and a sign, as in 1.0e-3"
    return ""


def _may_be_left_out(error: Error, document: object, schema: Mapping) -> str:
    """Return a hint if the value is empty and the file would be as complete without its key, or an empty text."""
    *parents, keyword, key = ["", "", *error.absolute_schema_path][:-1]
    if error.instance not in (None, "", [], {}) or keyword != "properties" or error.validator == "required":
        return ""
    rules = reduce(lambda rule, part: _followed(schema, rule[part]), parents[2:], schema)
    required = {name: rules[name] for name in ("required", "allOf", "anyOf", "oneOf") if name in rules}
    siblings: Any = reduce(step, list(error.absolute_path)[:-1], document)
    if not Validator(required).is_valid({name: value for name, value in siblings.items() if name != key}):
        return ""
    if key in OF_RECIPES and siblings.get("commands"):
        return f"; for commands alone, leave out {', '.join(OF_RECIPES[:-1])} and {OF_RECIPES[-1]}"
    return "; or leave the key out"


def _followed(schema: Mapping, rule: Any) -> Any:
    """Return the definition to which a rule refers, or the rule itself."""
    return schema["$defs"][rule["$ref"].rpartition("/")[2]] if isinstance(rule, Mapping) and "$ref" in rule else rule


def _without_quotes(text: str) -> object:
    try:
        return yaml.load(text, StrictLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _outside_of_a_list(value: object, error: Error) -> str:
    """Return a hint if an item of a list is a word that replaces the whole list, such as `auto`, or an empty text."""
    key = error.absolute_path[-1]
    return f"; write {key}: {value}, without a list" if value in _choices(error.schema) else ""
