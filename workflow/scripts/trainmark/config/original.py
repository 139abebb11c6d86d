"""Import the settings of the original ImageNet recipe for TSUBAME: config.yaml or config.json of ChainerMN's time.

A value that the recipe did not know is refused; the original replaced it with another one and said nothing. What is
reported besides: original_defects.py.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from trainmark.config.load import load_config
from trainmark.config.original_defects import GPUS, REMOVED, YES_OR_NO, UnquotedTime, defects
from trainmark.config.schema_check import raise_findings, schema_findings
from trainmark.config.strict_yaml import StrictLoader, as_mapping, parse_yaml, read_text
from trainmark.errors import ConfigError

TIME_TAG = "!time"


class OriginalLoader(StrictLoader):
    """The strict loader, which reads 10:00:00 as text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a value: a number with colons is a time."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_number = tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        return TIME_TAG if is_number and ":" in value else tag


OriginalLoader.add_constructor(TIME_TAG, lambda _, node: UnquotedTime(node.value))


def _one_of(*values: str) -> dict:
    return {"enum": list(values)}


COUNT = {"type": "integer", "minimum": 1, "allowed": "a whole number, 1 or more"}
TEXT = {"type": "string", "minLength": 1, "allowed": "text"}
PATH = {"type": ["string", "null"], "minLength": 1, "allowed": "a path, or null"}
TEXTS = {"type": ["object", "null"], "allowed": "a mapping of keys to values, or null"}
SETTINGS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["arch", "nclasses", "epoch", "batchsize"],
    "properties": {
        "nodetype": _one_of(*GPUS),
        "nnodes": COUNT,
        "walltime": {"type": "string", "pattern": r"^\d+:[0-5]?\d:[0-5]?\d$(?!\n)", "allowed": "hh:mm:ss"},
        "jobname": TEXT,
        "stdout": TEXT,
        "stderr": TEXT,
        "others": TEXTS,
        "modules": {"type": ["string", "object", "null"], "allowed": "a file with `module load` lines, or a mapping"},
        "vars": PATH,
        "nclasses": {"type": "integer", "minimum": 2, "maximum": 1000, "allowed": "a whole number, 2 to 1000"},
        "mean": PATH,
        "arch": _one_of("alex", "googlenet", "googlenetbn", "nin", "resnet50"),
        "epoch": COUNT,
        "batchsize": COUNT,
        "loaderjob": {"type": ["integer", "null"], "minimum": 1, "allowed": "a whole number, 1 or more, or null"},
        "out": TEXT,
        "resume": PATH,
        "initmodel": PATH,
        "test": {"type": ["boolean", "null"], "allowed": "true or null"},
        "communicator": {
            "enum": ["pure_nccl", "flat", "naive", *REMOVED],
            "allowed": f"pure_nccl, flat, naive and, of before Chainer 7, {', '.join(REMOVED)}",
        },
        "loadtype": _one_of("original", "custom"),
        "iterator": _one_of("serial", "thread", "process"),
        "optimizer": _one_of("momentum_sgd", "adam", "rmsprop_warmup", "rmsprop"),
    },
}
"""The settings of the original recipe (JSON Schema)."""

OTHER_KEYS = {
    "mean.npy": ("mean", "the original's documentation calls it mean.npy, and its program read mean"),
    "nnodetype": ("nodetype", "the original's documentation calls it nnodetype, and its program read nodetype"),
}
"""Names of keys that the original's program did not read: the right name, and what is reported."""

MISSPELT = {
    ("iterator", "processes"): (
        "process",
        "there is no iterator processes, and the original took the serial one instead",
    )
}
"""Values of the original's own samples that its program did not know: what was meant, and what is reported."""

STORES = {"original": "files", "custom": "memory"}
SHIPPED_CLASSES = (8, 16, 32)
"""Numbers of classes for which the catalogue has a choice of ImageNet's."""


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
    found = as_mapping(_parsed(text, file, reports), file)
    where = {key: _where(file, text, key) for key in found}
    settings = _renamed(found, where, reports)
    raise_findings(schema_findings(settings, SETTINGS), settings, {str(file): settings})
    where = {key: where.get(key) or where[_other_name(key)] for key in settings}
    reports += [f"{where[key]}: {key}: {report}" for key, report in defects(settings)]
    document = _document(settings, file, name or _name_of(settings))
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


def _parsed(text: str, file: Path, reports: list[str]) -> object:
    if file.suffix == ".json":
        return _parsed_json(text, file, reports)
    return parse_yaml(text, file, OriginalLoader)


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


def _renamed(found: Mapping[str, Any], where: Mapping[str, str], reports: list[str]) -> dict[str, Any]:
    """Return the settings under the names and in the spelling that the original's program knew; report the changes.

    Raises ConfigError if a key stands there under both names.
    """
    settings: dict[str, Any] = {}
    for key, value in found.items():
        right, report = OTHER_KEYS.get(key, (key, ""))
        if right in settings or (right != key and right in found):
            raise ConfigError(
                f"{where[key]}: found both {right} and {_other_name(right)}, which mean the same; allowed: one"
            )
        if report:
            reports.append(f"{where[key]}: {key}: {report}; read as {right}")
        settings[right] = value
        if isinstance(value, str) and (right, value) in MISSPELT:
            settings[right], report = MISSPELT[right, value]
            reports.append(f"{where[key]}: {key}: {report}; read as {settings[right]}")
    return settings


def _other_name(key: str) -> str:
    return next(other for other, (right, _) in OTHER_KEYS.items() if right == key)


# --- what is written ----------------------------------------------------------------------------------------------


def _document(settings: Mapping[str, Any], file: Path, name: str) -> dict:
    dataset, datasets = _dataset(settings["nclasses"])
    rule = settings.get("optimizer", "momentum_sgd")
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
        "batch_size": settings["batchsize"],
        "input": {"subtract_mean": True},
        "optimizer": {"rule": rule, **({"legacy": True} if rule == "rmsprop_warmup" else {})},
        "loader": loader,
        "evaluation_batch_size": 250,
        **({"evaluation_steps": 10} if settings.get("test") else {}),
    }
    return {"experiments": {name: experiment}, **({"datasets": datasets} if datasets else {})}


def _dataset(classes: int) -> tuple[str, dict]:
    """Return the dataset with so many classes of ImageNet, and its entry if the catalogue has none."""
    if classes == 1000:
        return "ilsvrc2012", {}
    name = f"mini-imagenet-{classes}"
    drawn = {"format": "class_subset", "of": "ilsvrc2012", "classes": classes, "seed": 1}
    entry = {"title": f"{classes} classes of ImageNet", **drawn}
    return name, {} if classes in SHIPPED_CLASSES else {name: entry}


def _name_of(settings: Mapping[str, Any]) -> str:
    return re.sub(r"[^a-z0-9]+", "-", settings.get("jobname", "").lower()).strip("-")[:40].strip("-") or "imagenet"


def _site(settings: Mapping[str, Any]) -> dict:
    """Return the content of config/site.yaml that the settings of the job become."""
    options = {"node_type": settings.get("nodetype")} | {
        key: settings.get(key) for key in ("jobname", "stdout", "stderr", "others")
    }
    given = {key: value for key, value in options.items() if value}
    if isinstance(others := given.get("others"), dict):
        given["others"] = {key: YES_OR_NO[value] if isinstance(value, bool) else value for key, value in others.items()}
    sections = {
        **({"all": {"group": None, **given}} if given else {}),
        **({"train": {"runtime": _minutes(settings["walltime"])}} if "walltime" in settings else {}),
    }
    modules = settings.get("modules")
    return {
        **({"options": sections} if sections else {}),
        **({"modules": modules} if isinstance(modules, str) else {}),
    }


def _minutes(walltime: str) -> int:
    hours, minutes, seconds = map(int, walltime.split(":"))
    return 60 * hours + minutes + ceil(seconds / 60)
