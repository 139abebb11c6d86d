"""Import the settings of the original ImageNet recipe for TSUBAME: config.yaml or config.json of ChainerMN's time.

A value that the recipe did not know is refused; the original replaced it with another one and said nothing. What is
reported besides: original_defects.py.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from trainmark.config.load import load_config
from trainmark.config.original_defects import YES_OR_NO, UnquotedTime, defects, workers_of
from trainmark.config.original_keys import LIST_KEYS, MISSPELT, NOT_IMPORTED, OTHER_KEYS, SETTINGS, STORES
from trainmark.config.schema_check import Finding, raise_findings, schema_findings
from trainmark.config.strict_yaml import StrictLoader, as_mapping, parse_yaml, read_text
from trainmark.datasets.catalogue import SPLITS
from trainmark.errors import ConfigError

SHIPPED_CLASSES = (8, 16, 32)
"""Numbers of classes for which the catalogue has a choice of ImageNet's."""

TIME_TAG = "!time"


class OriginalLoader(StrictLoader):
    """The strict loader, which reads 10:00:00 as text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a value: a number with colons is a time."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_number = tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        return TIME_TAG if is_number and ":" in value else tag


OriginalLoader.add_constructor(TIME_TAG, lambda _, node: UnquotedTime(node.value))


@dataclass(frozen=True)
class Imported:
    """An imported file.

    document: the experiment file.
    reports: one sentence for each defect, and for each setting that is not in the document.
    site: the content of config/site.yaml for profiles/tsubame; empty if the file says nothing of jobs.
    folder: results folder (`out`), for snakemake --directory; None if the file names none.
    """

    document: dict
    reports: list[str]
    site: dict
    folder: str | None


def import_config(file: Path, name: str | None = None) -> Imported:
    """Import a file of the original recipe. name: the experiment's; None for one after `jobname`.

    Raises ConfigError with one line for each setting that is not allowed.
    """
    text = read_text(file)
    reports: list[str] = []
    is_json = file.suffix == ".json"
    parsed = _parsed_json(text, file, reports) if is_json else parse_yaml(text, file, OriginalLoader)
    found = as_mapping(parsed, file)
    where = {key: _where(file, text, key) for key in found}
    settings = _renamed(found, where, reports)
    findings = [*schema_findings(settings, SETTINGS), *_unknown_keys(settings)]
    raise_findings(findings, settings, {str(file): settings})
    reports += [f"{where[key]}: {key}: {report}" for key, report in defects(settings)]
    for reason, keys in NOT_IMPORTED.items():
        if present := [key for key in settings if key in keys]:
            why = reason.format(rule=settings.get("optimizer", "momentum_sgd"))
            reports.append(f"{where[present[0]]}: {', '.join(present)}: not imported, since {why}")
    after_job = re.sub(r"[^a-z0-9]+", "-", settings.get("jobname", "").lower()).strip("-")[:40].strip("-")
    document = _document(settings, file, name or after_job or "imagenet")
    load_config([], document, "the imported experiment", fetches=False)
    return Imported(document, reports, _site(settings), settings.get("out"))


def dump(imported: Imported, file: Path) -> str:
    """Return the experiment file as text."""
    return f"# Imported from {file}. All keys: docs/config.md\n{_yaml(imported.document)}"


def dump_site(imported: Imported) -> str:
    """Return the words for the cluster profile as text; empty if there are none."""
    return _yaml(imported.site) if imported.site else ""


def _yaml(document: dict) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110)
    return text


# --- reading ------------------------------------------------------------------------------------------------------


def _parsed_json(text: str, file: Path, reports: list[str]) -> object:
    """Parse JSON. A comma that is missing before a key is put in and reported; the original's program just failed."""
    while True:
        try:
            return json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, file))
        except json.JSONDecodeError as error:
            end = len(text[: error.pos].rstrip())
            is_key = re.match(r'"[^"\\\n]*"\s*:', text[error.pos :])
            if not (error.msg.startswith("Expecting ','") and is_key):
                raise ConfigError(
                    f"{file}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); correct the line"
                ) from error
            line = text.count("\n", 0, end) + 1
            reports.append(
                f"{file}, line {line}: a comma is missing at the end of the line; it was read as if it stood there"
            )
            text = f"{text[:end]},{text[end:]}"


def _unique(pairs: Iterable[tuple[str, Any]], file: Path) -> dict:
    """Return the pairs of a JSON object as a dict. Raises ConfigError for a key that is there twice."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(f"{file}: found the key {key!r} twice; allowed: each key once")
        values[key] = value
    return values


def _where(file: Path, text: str, key: object) -> str:
    """Return file and line of a key at the top of a file."""
    match = re.search(rf"""^[\s{{,]*["']?{re.escape(str(key))}["']?\s*:""", text, re.MULTILINE)
    return f"{file}, line {text.count(chr(10), 0, match.end()) + 1}" if match else str(file)


def _renamed(found: Mapping[str, Any], where: dict[str, str], reports: list[str]) -> dict[str, Any]:
    """Return the settings under the names and in the spelling that the original's program knew; report the changes.

    where: file and line by key; the right names are added. Raises ConfigError if a key stands there under two names.
    """
    settings: dict[str, Any] = {}
    for key, value in found.items():
        right, report = OTHER_KEYS.get(key, (key, ""))
        same = [other for other in found if OTHER_KEYS.get(other, (other,))[0] == right and other != key]
        if report and same:
            raise ConfigError(f"{where[key]}: found both {same[0]} and {key}, which mean the same; allowed: one")
        if report:
            reports.append(f"{where[key]}: {key}: {report}; read as {right}")
        settings[right], where[right] = value, where[key]
        if isinstance(value, str) and (right, value) in MISSPELT:
            settings[right], report = MISSPELT[right, value]
            reports.append(f"{where[key]}: {key}: {report}; read as {settings[right]}")
    return settings


def _unknown_keys(settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each key that no version of the original has; the last one says which keys are allowed."""
    known = [*SETTINGS["properties"], *OTHER_KEYS]
    unknown = [key for key in settings if key not in known and key not in chain(*NOT_IMPORTED.values())]
    for key in unknown:
        allowed = f"; allowed: {', '.join(known)}" if key == unknown[-1] else ""
        near = get_close_matches(str(key), known, n=1, cutoff=0.85)  # a misspelling, and not another meaning
        yield (key,), f"unknown key{allowed}{f'; did you mean {near[0]}?' if near else ''}"


# --- what is written ----------------------------------------------------------------------------------------------


def _document(settings: Mapping[str, Any], file: Path, name: str) -> dict:
    dataset, datasets = _lists(settings, file) or _classes(settings["nclasses"])
    rule, workers = settings.get("optimizer", "momentum_sgd"), workers_of(settings)
    loader = {
        "iterator": settings.get("iterator", "process"),
        "jobs": settings.get("loaderjob"),
        "store": STORES[settings.get("loadtype", "original")],
    }
    experiment = {
        "description": f"The ImageNet recipe for TSUBAME, with the settings of {file.name}.",
        "recipes": [f"imagenet-{settings['arch']}"],
        "datasets": [dataset],
        "frameworks": ["chainer"],
        "epochs": [settings["epoch"]],
        "repeats": 1,
        **({"workers": [workers]} if workers > 1 else {}),
        "batch_size": workers * settings["batchsize"],
        "input": {"subtract_mean": True},
        "optimizer": {"rule": rule, **({"legacy": True} if rule == "rmsprop_warmup" else {})},
        "loader": loader,
        "evaluation_batch_size": 250,
        **({"evaluation_steps": 10} if settings.get("test") else {}),
    }
    return {"experiments": {name: experiment}, **({"datasets": datasets} if datasets else {})}


def _lists(settings: Mapping[str, Any], file: Path) -> tuple[str, dict] | None:
    """Return the dataset of the file's own lists of images and its entry; None if it names a number of classes alone.

    Raises ConfigError if it names neither, or only one list.
    """
    paths = {key: os.path.expanduser(os.path.expandvars(settings.get(key) or "")) for key in LIST_KEYS}
    folder = paths["dataset_dir"]
    lists = [paths[key] or (folder and f"{folder}/{key}.txt") for key in ("train", "val")]
    if not all(lists):
        if any(lists) or "nclasses" not in settings:
            raise ConfigError(
                f"{file}: its images are not named; allowed: nclasses, dataset_dir, or both train and val"
            )
        return None
    roots = [paths[key] or paths["root"] or folder or "." for key in ("train_root", "val_root")]
    top = roots[0] if roots[0] == roots[1] else os.path.commonpath([os.path.abspath(root) for root in roots])
    entry = {
        "title": "Images of the lists of the original recipe",
        "format": "image_list",
        "folder": top,
        "lists": {split: os.path.abspath(path) for split, path in zip(SPLITS, lists, strict=True)},
    }
    if roots[0] != roots[1]:
        entry["roots"] = {split: os.path.relpath(root, top) for split, root in zip(SPLITS, roots, strict=True)}
    return "imagenet-lists", {"imagenet-lists": entry}


def _classes(classes: int) -> tuple[str, dict]:
    """Return the dataset with so many classes of ImageNet, and its entry if the catalogue has none."""
    if classes == 1000:
        return "ilsvrc2012", {}
    name = f"mini-imagenet-{classes}"
    drawn = {"format": "class_subset", "of": "ilsvrc2012", "classes": classes, "seed": 1}
    entry = {"title": f"{classes} classes of ImageNet", **drawn}
    return name, {} if classes in SHIPPED_CLASSES else {name: entry}


def _site(settings: Mapping[str, Any]) -> dict:
    """Return the content of config/site.yaml that the settings of the job become."""
    options = {"node_type": settings.get("nodetype")} | {
        key: settings.get(key) for key in ("jobname", "stdout", "stderr", "others")
    }
    given = {key: value for key, value in options.items() if value}
    if isinstance(others := given.get("others"), dict):
        given["others"] = {key: YES_OR_NO[value] if isinstance(value, bool) else value for key, value in others.items()}
    nodes = {"nodes": settings["nnodes"]} if settings.get("nnodes", 1) > 1 else {}
    limit = {"runtime": _minutes(settings["walltime"])} if "walltime" in settings else {}
    sections = {
        **({"all": {"group": None, **given}} if given else {}),
        **({"train": {**nodes, **limit}} if nodes or limit else {}),
        **({"trace_training": nodes} if nodes else {}),
    }
    modules = settings.get("modules")
    return {
        **({"options": sections} if sections else {}),
        **({"modules": modules} if isinstance(modules, str) else {}),
    }


def _minutes(walltime: str) -> int:
    hours, minutes, seconds = map(int, walltime.split(":"))
    return 60 * hours + minutes + ceil(seconds / 60)
