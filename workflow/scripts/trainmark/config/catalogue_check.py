"""Check the dataset catalogue, and the entries that a config adds or changes."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

from trainmark.config.schema_check import Finding, raise_findings, schema_findings
from trainmark.config.wording import format_value, nearest
from trainmark.datasets.catalogue import Format, kind_of, known_formats
from trainmark.datasets.fetching.addresses import is_web


def check_catalogue(catalogue: Mapping, file: Path, schema: Mapping) -> None:
    """Raise ConfigError with one line for each mistake in the dataset catalogue."""
    raise_findings(_findings(catalogue, schema), {str(file): catalogue})


def check_own_datasets(
    catalogue: Mapping, shipped: Mapping, own: Mapping, documents: Mapping[str, Mapping], schema: Mapping
) -> None:
    """Raise ConfigError with one line for each mistake in a catalogue with entries from configs.

    catalogue: the merged catalogue.
    shipped: the checked catalogue without the configs' entries.
    own: the configs' entries.
    documents: the configs by file name; messages name the file that holds a wrong key.
    """
    in_catalogue = list(_format_findings(shipped, own)) or _findings(catalogue, schema)
    raise_findings([(("datasets", *path), sentence) for path, sentence in in_catalogue], documents)


def _format_findings(shipped: Mapping, own: Mapping) -> Iterator[Finding]:
    """Find entries that change the format of a shipped dataset: they keep the keys of the old one."""
    for name in shipped.keys() & own.keys():
        format_name = shipped[name]["format"]
        if isinstance(own[name], Mapping) and own[name].get("format", format_name) != format_name:
            found = f"found {format_value(own[name]['format'])}"
            allowed = f"{format_name}, or another name for your own dataset"
            yield (name, "format"), f"{found}; allowed: {allowed}"


def _findings(catalogue: Mapping, schema: Mapping) -> list[Finding]:
    with_formats = _with_formats(schema["$defs"]["catalogue"], catalogue)
    found = list(schema_findings(catalogue, with_formats))
    if not found:
        for name, entry in catalogue.items():
            found += _entry_findings(name, entry, catalogue)
    return found


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


def _names_paths(encoding: str) -> bool:
    try:
        return b"a/1.png".decode(encoding) == "a/1.png"
    except (LookupError, ValueError):
        return False


def _file_findings(name: str, entry: Mapping) -> Iterator[Finding]:
    names = [file["name"] for file in entry.get("files", [])]
    for twice in sorted({file_name for file_name in names if names.count(file_name) > 1}):
        yield (name, "files"), f"found the name {twice} twice; allowed: each file name once"
    for i, file in enumerate(entry.get("files", [])):
        checksums = [kind for kind in ("sha256", "md5") if kind in file]
        if len(checksums) > 1:
            yield (name, "files", i), "found both sha256 and md5; allowed: one of them"
        if not checksums and all(map(is_web, file["urls"])):
            yield (name, "files", i), "lacks the key sha256 or md5; allowed: one of them, or none for a file:// address"
        if known_formats()[entry["format"]].unpickles and "sha256" not in file:
            yield (name, "files", i), "found no sha256; the format runs what the file says, so it must be known"


def _entry_findings(name: str, entry: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    """Find keys of an entry that do not fit each other, or the entry that it is a part of."""
    yield from _file_findings(name, entry)
    if not _names_paths(entry.get("encoding", "utf-8")):
        yield (name, "encoding"), f"found {entry['encoding']}; allowed: a text encoding of Python, such as cp437"
    classes = entry.get("classes")
    of = entry.get("of")
    class_names = len(entry.get("class_names", []))
    if classes and class_names and class_names != classes:
        found = f"found {class_names} class_names and {classes} classes"
        yield (name, "class_names"), f"{found}; allowed: as many names as classes"
    if of is None:
        return
    bases = [base for base, other in catalogue.items() if "of" not in other]
    if of not in bases:
        why = "is a part of another dataset itself" if of in catalogue else "is no dataset"
        allowed = f"{', '.join(bases)}{'' if of in catalogue else nearest(of, bases)}"
        yield (name, "of"), f"found {format_value(of)}, which {why}; allowed: {allowed}"
    elif classes and classes > (most := catalogue[of].get("classes", classes)):
        yield (name, "classes"), f"found {classes}; allowed: at most the {most} classes of {of}"
    elif entry.get("packed") and kind_of(of, catalogue) != "image_lists":
        yield (name, "packed"), f"found true; allowed: false, since {of} is an array already"
