"""What may be wrong with a config, each as one sentence: file, key path, what was found, what is allowed."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

import jsonschema

from trainmark.datasets import known_formats
from trainmark.errors import ConfigError
from trainmark.frameworks import known_frameworks
from trainmark.recipes import RECIPES, merged_input

KeyPath = tuple[str | int, ...]
Finding = tuple[KeyPath, str]
"""Where something is wrong, and the rest of the sentence."""

TYPE_NAMES = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "a mapping",
}  # fmt: skip


def check_config(config: Mapping, documents: Mapping[str, Mapping], schema: Mapping, catalogue: Mapping) -> None:
    """Raise ConfigError with one line for each thing wrong with a merged config.

    documents: the files it was merged from, by name, to say which of them a wrong key stands in.
    """
    findings = list(_schema_findings(config, schema))
    findings = findings or list(_name_findings(config, catalogue))
    findings = findings or list(_fit_findings(config, catalogue))
    _raise(f"{_file_of(path, documents)}: {_dotted(path)}: {sentence}" for path, sentence in findings)


def check_catalogue(catalogue: Mapping, file: Path, schema: Mapping) -> None:
    """Raise ConfigError with one line for each thing wrong with the dataset catalogue."""
    findings = list(_schema_findings(catalogue, schema["$defs"]["catalogue"]))
    if not findings:
        for name, entry in catalogue.items():
            findings += _unknown((name, "format"), entry["format"], known_formats())
    _raise(f"{file}: {_dotted(path)}: {sentence}" for path, sentence in findings)


def _raise(lines: Iterable[str]) -> None:
    if text := "\n".join(lines):
        raise ConfigError(text)


# --- what JSON Schema finds, in words ---------------------------------------------------------------------------


def _schema_findings(document: Mapping, schema: Mapping) -> Iterator[Finding]:
    validator = jsonschema.Draft202012Validator(schema)
    for error in sorted(validator.iter_errors(document), key=lambda error: [str(part) for part in error.absolute_path]):
        yield from SENTENCES.get(error.validator, _not_allowed)(error)


def _unknown_keys(error: jsonschema.ValidationError) -> Iterator[Finding]:
    known = list(error.schema["properties"])
    for key in error.instance:
        if key not in known:
            yield (*error.absolute_path, key), f"unknown key; allowed: {', '.join(known)}{_nearest(key, known)}"


def _missing_key(error: jsonschema.ValidationError) -> Iterator[Finding]:
    missing = [key for key in error.validator_value if key not in error.instance]
    yield tuple(error.absolute_path), f"lacks the key {', '.join(missing)}"


def _twice(error: jsonschema.ValidationError) -> Iterator[Finding]:
    values = error.instance
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    yield tuple(error.absolute_path), f"found {_shown(twice[0])} twice; allowed: each value once"


def _bad_name(error: jsonschema.ValidationError) -> Iterator[Finding]:
    found = _shown(error.instance)
    yield (
        tuple(error.absolute_path),
        f"found the name {found}; allowed: lower-case letters, digits and hyphens, 40 at most",
    )


def _not_allowed(error: jsonschema.ValidationError) -> Iterator[Finding]:
    schema = error.schema
    if error.validator == "oneOf" and (deeper := _of_this_type(error)):
        for part in deeper:
            yield from SENTENCES.get(part.validator, _not_allowed)(part)
        return
    choices = [str(choice) for choice in schema.get("enum", [])]
    allowed = schema.get("allowed") or ", ".join(choices)
    text = f"found {_shown(error.instance)}; allowed: {allowed}{_nearest(error.instance, choices or _choices(schema))}"
    yield tuple(error.absolute_path), text


def _of_this_type(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    """Errors of a list's items, or of one given twice, where one alternative of a oneOf takes a list."""
    outer = len(error.absolute_path)
    return [part for part in error.context if len(part.absolute_path) > outer or part.validator == "uniqueItems"]


def _choices(schema: Mapping) -> list[str]:
    """The words that a oneOf allows."""
    parts = schema.get("oneOf", [])
    return [word for part in parts for word in [*part.get("enum", []), *([part["const"]] if "const" in part else [])]]


SENTENCES = {
    "additionalProperties": _unknown_keys,
    "required": _missing_key,
    "uniqueItems": _twice,
    "pattern": lambda error: _bad_name(error) if "allowed" not in error.schema else _not_allowed(error),
}


# --- what only the code knows: names, and what fits what ----------------------------------------------------------


def _name_findings(config: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    known = {"recipes": list(RECIPES), "datasets": list(catalogue), "frameworks": list(known_frameworks())}
    for name, experiment in config["experiments"].items():
        for key, names in known.items():
            for i, value in enumerate(experiment.get(key, [])):
                yield from _unknown(("experiments", name, key, i), value, names)


def _unknown(path: KeyPath, value: str, names: list[str]) -> list[Finding]:
    if value in names:
        return []
    return [(path, f"found {_shown(value)}; allowed: {', '.join(names)}{_nearest(value, names)}")]


def _fit_findings(config: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    for name, experiment in config["experiments"].items():
        for i, recipe_name in enumerate(experiment.get("recipes", [])):
            recipe = RECIPES[recipe_name]
            transform = merged_input(recipe, experiment.get("input", {}))
            for dataset in experiment.get("datasets", []):
                if misfit := recipe.misfit(tuple(catalogue[dataset]["image_shape"]), transform):
                    fitting = _fitting_datasets(recipe, transform, catalogue)
                    yield (
                        ("experiments", name, "recipes", i),
                        f"the recipe {recipe_name} does not fit the dataset {dataset}: it {misfit}; "
                        f"allowed: a dataset that fits ({fitting}), another recipe, or another input.crop",
                    )


def _fitting_datasets(recipe, transform, catalogue: Mapping) -> str:
    fitting = [name for name, entry in catalogue.items() if not recipe.misfit(tuple(entry["image_shape"]), transform)]
    return ", ".join(fitting) or "none with this input"


# --- words --------------------------------------------------------------------------------------------------------


def _file_of(path: KeyPath, documents: Mapping[str, Mapping]) -> str:
    """The document in which the longest part of a key path stands; the last one, which wins, for a tie."""

    def depth(document: object) -> int:
        for length, part in enumerate(path):
            try:
                document = document[part]
            except (KeyError, IndexError, TypeError):
                return length
        return len(path)

    depths = {file: depth(document) for file, document in documents.items()}
    deepest = max(depths.values(), default=0)
    return [file for file, reached in depths.items() if reached == deepest][-1]


def _dotted(path: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "top level"


def _shown(value: object) -> str:
    if value is None or value in ([], {}):
        return "nothing (null)" if value is None else f"an empty {'list' if value == [] else 'mapping'}"
    text = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    return f"{text} ({TYPE_NAMES.get(type(value).__name__, type(value).__name__)})"


def _nearest(value: object, names: Iterable[str]) -> str:
    near = get_close_matches(str(value).lower(), list(names), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near and near[0] != value else ""
