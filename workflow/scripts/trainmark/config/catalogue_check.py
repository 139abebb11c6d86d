"""Check the dataset catalogue, and the entries that a config adds or changes."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

from trainmark.config.schema_check import Finding, raise_findings, schema_findings
from trainmark.config.wording import format_value, nearest
from trainmark.datasets.catalogue import Format, kind_of, known_formats


def check_catalogue(catalogue: Mapping, file: Path, schema: Mapping) -> None:
    """Raise ConfigError with one line for each mistake in the dataset catalogue."""
    raise_findings(_findings(catalogue, catalogue, schema), catalogue, {str(file): catalogue})


def check_own_datasets(
    catalogue: Mapping, shipped: Mapping, own: Mapping, documents: Mapping[str, Mapping], schema: Mapping
) -> None:
    """Raise ConfigError with one line for each mistake in a catalogue with entries from configs.

    catalogue: the merged catalogue.
    shipped: the checked catalogue without the configs' entries.
    own: the configs' entries.
    documents: the configs by file name; messages name the file that holds a wrong key.
    """
    in_catalogue = list(_format_findings(shipped, own)) or _findings(catalogue, own, schema)
    findings = [(("datasets", *path), sentence) for path, sentence in in_catalogue]
    raise_findings(findings, {"datasets": catalogue}, documents)


def _format_findings(shipped: Mapping, own: Mapping) -> Iterator[Finding]:
    """Find entries that change the format of a shipped dataset: they would keep the keys of the old format."""
    for name in shipped.keys() & own.keys():
        shipped_format = shipped[name]["format"]
        own_format = own[name].get("format", shipped_format) if isinstance(own[name], Mapping) else shipped_format
        if own_format != shipped_format:
            yield (
                (name, "format"),
                f"found {format_value(own_format)}; allowed: {shipped_format}, or another name for your own dataset",
            )


def _findings(catalogue: Mapping, edited: Mapping, schema: Mapping) -> list[Finding]:
    """Return all findings in the catalogue.

    edited: the part of the catalogue that is being checked. If two keys do not fit each other, the finding names the
    key in this part.
    """
    in_schema = list(schema_findings(catalogue, _with_formats(schema["$defs"]["catalogue"], catalogue)))
    return in_schema or [
        *_file_findings(catalogue),
        *_class_findings(catalogue, edited),
        *_subset_findings(catalogue, edited),
    ]


def _with_formats(schema: dict, catalogue: Mapping) -> dict:
    """Return the catalogue's schema, in which each entry allows only the keys of its format."""
    schema = deepcopy(schema)
    any_entry = schema["additionalProperties"]
    any_entry["properties"]["format"] = {"enum": list(known_formats())}
    formats = {name: entry.get("format") for name, entry in catalogue.items() if isinstance(entry, Mapping)}
    schema["properties"] = {
        name: _of_format(any_entry, known_formats()[form])
        for name, form in formats.items()
        if isinstance(form, str) and form in known_formats()
    }
    return schema


def _of_format(any_entry: Mapping, form: Format) -> dict:
    keys = any_entry["properties"]
    alternatives = [key.split("|") for key in form.required]
    return {
        **any_entry,
        "properties": {key: part for key, part in keys.items() if key in form.allowed},
        "required": [*any_entry["required"], *(keys[0] for keys in alternatives if len(keys) == 1)],
        "allOf": [{"anyOf": [{"required": [key]} for key in keys]} for keys in alternatives if len(keys) > 1],
    }


def _file_findings(catalogue: Mapping) -> Iterator[Finding]:
    for name, entry in catalogue.items():
        names = [file["name"] for file in entry.get("files", [])]
        for i, file_name in enumerate(names):
            if file_name in names[:i]:
                yield (name, "files", i, "name"), f"found {format_value(file_name)} twice; allowed: each file name once"
            if known_formats()[entry["format"]].unpickles and "sha256" not in entry["files"][i]:
                yield (name, "files", i), "found no sha256; the format runs what the file says, so it must be known"


def _class_findings(catalogue: Mapping, edited: Mapping) -> Iterator[Finding]:
    for name, entry in catalogue.items():
        classes = entry.get("classes")
        names = len(entry.get("class_names", []))
        if not classes or not names or names == classes:
            continue
        if "class_names" in edited.get(name, {}):
            yield (name, "class_names"), f"found {names} names; allowed: as many as classes, {classes}"
        else:
            yield (name, "classes"), f"found {classes}; allowed: as many as class_names, {names}"


def _subset_findings(catalogue: Mapping, edited: Mapping) -> Iterator[Finding]:
    bases = [name for name, entry in catalogue.items() if "of" not in entry]
    for name, entry in catalogue.items():
        of = entry.get("of")
        if of is None:
            continue
        if of not in bases:
            why = "is a part of another dataset itself" if of in catalogue else "is no dataset"
            hint = "" if of in catalogue else nearest(of, bases)
            yield (name, "of"), f"found {format_value(of)}, which {why}; allowed: {', '.join(bases)}{hint}"
        elif (classes := entry.get("classes", 0)) > (most := catalogue[of].get("classes", classes)):
            yield _too_few_classes(name, classes, of, most, edited)
        elif entry.get("packed") and kind_of(of, catalogue) != "image_lists":
            yield (name, "packed"), f"found true; allowed: false, since {of} is an array already"


def _too_few_classes(name: str, classes: int, of: str, most: int, edited: Mapping) -> Finding:
    if name in edited:
        return (name, "classes"), f"found {classes}; allowed: at most the {most} classes of {of}"
    return (of, "classes"), f"found {most}; allowed: {classes} or more, since {name} takes so many of them"
