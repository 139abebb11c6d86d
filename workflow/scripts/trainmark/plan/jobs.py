"""What a campaign makes: its jobs, each with all that decides its result, and the key by which that result is found.

A key holds two digests: of what is made, and of the code that makes it. It is part of the result's path. So a result
that is there is final, and there is a job only for one that is not: no file time and no history of calls says more.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Any

from trainmark.config.load import keys_that_decide
from trainmark.datasets.catalogue import kind_of, sample_shape
from trainmark.files.checksums import sha256_of
from trainmark.networks.ops import Shape
from trainmark.plan.code_digests import dataset_code, digest, run_code
from trainmark.plan.keys import KEY_DIGITS, deciding, key_of, short_digest
from trainmark.plan.matrix import certified_groups, datasets_of, expand_runs, trained_order, without_layers
from trainmark.plan.own_data import deciding_of_own
from trainmark.plan.products import (
    CERTIFICATE,
    COMMAND,
    DATASET,
    EVALUATION,
    MANIFEST,
    RECORD,
    RESULTS,
    TUNING,
    mean_in,
    packed_in,
    prepared_in,
)
from trainmark.plan.run import Run, of_trainer
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.own import SHIPPED, as_document, deciding_values
from trainmark.recipes.recipe import Recipe, merged_input, seen_shape
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.trainer import STOCK, Trainer

PLANNED_KEYS = ("experiments", "prepare", "datasets", "prices", "figures", "claims")
"""Keys of the config that the plan contains. The mirror is left out because its address may contain a secret key."""

FETCHING_KEYS = ("files", "folder", "embedded_in", "of")

WITHOUT_EFFECT = ("title", "folder", "packed")
"""Keys of a dataset's entry that do not decide its content. A folder's files do, wherever they are."""


@dataclass(frozen=True)
class Folder:
    """The results folder, in which the files of keys are found.

    any_code: whether a result of other code than this clone's is as good, if there is none of this code.
    """

    path: Path = Path(RESULTS)
    any_code: bool = False

    def find(self, pattern: str, values: Mapping[str, Any], made: Any, code: Any, end: str = "") -> str:
        """Return the path of a result. end: what follows it in the path of the file that is made last."""
        key = key_of(made, code)
        path = pattern.format(**values, key=key)
        if self.any_code and not self.has(path + end):
            others = self.path.glob(pattern.format(**values, key=f"{key[:KEY_DIGITS]}-{'?' * KEY_DIGITS}") + end)
            newest = max(others, key=os.path.getmtime, default=None)
            return str(newest.relative_to(self.path)).removesuffix(end) if newest else path
        return path

    def has(self, path: str) -> bool:
        """Return whether a file is there."""
        return os.path.exists(f"{self.path}/{path}")

    def attempt(self, record: str, is_new: bool) -> str:
        """Return the record of a run's newest attempt. is_new: of its next one, if it has a record."""
        folder, name = record.rsplit("/", 1)
        newest, number = record, 2
        while self.has(following := f"{folder}.{number}/{name}"):
            newest, number = following, number + 1
        return following if is_new and self.has(newest) else newest


def make_plan(
    config: Mapping,
    catalogue: Mapping,
    *,
    missing: Mapping[str, str] | None = None,
    again: Collection[str] = (),
    own: Mapping[str, list] | None = None,
    folder: Folder = Folder(),
) -> dict[str, Any]:
    """Return the plan: the config, the runs, and the jobs with the paths of what they make.

    config: with defaults and resolved devices.
    missing: the reason why a run has no record, by run id. It is planned, but not in the tables.
    again: ids of the runs that are trained again although they have records.
    own: what the user's folders hold (`own_data`), by dataset.
    """
    runs = expand_runs(config)
    left_out = {**without_layers(runs), **(missing or {})}
    left = [run for run in runs if run.id not in left_out]
    datasets: dict[str, dict] = {}
    for name in datasets_of(config, catalogue):
        _add_dataset(name, catalogue, datasets, own or {}, folder)
    commands = {
        f"{name}/{command}": _fetched(name, command, experiment["commands"][command], folder)
        for name, experiment in config["experiments"].items()
        for command in experiment["commands"]
    }
    sha256 = cache(_sha256_if_there)  # many trainers start from the same file
    jobs: dict[str, dict] = {}
    records = {}
    for run in runs:
        of = of_trainer(run)
        if of not in jobs:
            jobs[of] = _job(run, config, datasets, commands, folder, sha256)
        job = jobs[of]
        made = {"run": run.values, "settings": job["settings"], "inputs": job["inputs"]}
        path = folder.find(RECORD, vars(run), made, deciding(job["code"]))
        records[run.id] = folder.attempt(path, run.id in again)
    groups, planned = certified_groups(left), certified_groups(runs)
    plan = {
        "config": {key: config[key] for key in PLANNED_KEYS},
        "any_code": folder.any_code,
        "order": [run.id for run in trained_order(runs, config)],
        "missing": dict(left_out),
        "records": {run.id: records[run.id] for run in left},
        "repeated": sorted(run for run in again if run in records and not folder.has(records[run])),
        "datasets": datasets,
        "commands": commands,
        "recipes": _own_recipes(config, datasets),
        "jobs": jobs,
        "certificates": {
            "/".join(group): _certificate(group, trainers, planned[group], config, jobs, folder)
            for group, trainers in groups.items()
        },
        "evaluations": _evaluations(groups, config, left, records, jobs, folder),
    }
    return plan


# --- datasets and commands ----------------------------------------------------------------------------------------


def _add_dataset(name: str, catalogue: Mapping, datasets: dict, own: Mapping, folder: Folder) -> None:
    """Add a dataset and the one that it takes its classes from. datasets: entries of the plan, by name."""
    if name in datasets:
        return
    entry = {key: value for key, value in catalogue[name].items() if key != "packed"}
    of = entry.get("of")
    if of:
        _add_dataset(of, catalogue, datasets, own, folder)
    content = {key: value for key, value in entry.items() if key not in WITHOUT_EFFECT}
    content["files"] = [_content_of(file) for file in entry.get("files", [])]
    made = {"name": name, "entry": content, "of": datasets[of]["content"] if of else None}
    made["own"] = deciding_of_own(own.get(name, ()))
    code = dataset_code(entry["format"])
    # The prepared form holds these, and paths in the folder and in the prepared form of the other dataset.
    where = {"made": made, "title": entry["title"], "folder": entry.get("folder"), "of": of and datasets[of]["folder"]}
    path = folder.find(DATASET, {"dataset": name}, where, code, f"/prepared/{MANIFEST}")
    kind = kind_of(name, catalogue)
    datasets[name] = {
        "folder": path,
        "content": short_digest(made),
        "made_by": code,
        "code": short_digest([code, datasets[of]["code"] if of else None]),
        "kind": kind,
        "sample_shape": list(sample_shape(name, catalogue)),
        "classes": entry.get("classes"),
        "entry": entry,
        "of": datasets[of]["folder"] if of else None,
        "packed": bool(catalogue[name].get("packed")),
        "own": own.get(name, []),
    }


def _content_of(file: Mapping) -> dict:
    """Return what decides the content of a file that is fetched: its address only if it has no checksum."""
    has_checksum = {"sha256", "md5"} & file.keys()
    return {key: value for key, value in file.items() if not (has_checksum and key == "urls")}


def entry_to_fetch(entry: Mapping) -> dict:
    """Return the keys of a dataset's entry that say where its data come from."""
    return {key: entry[key] for key in FETCHING_KEYS if key in entry}


def _fetched(experiment: str, name: str, command: Mapping, folder: Folder) -> dict[str, Any]:
    """Return the files of a command, in the form of a dataset's entry, and their folder."""
    files = [{"name": file["path"], **file} for file in command["files"]]
    values = {"experiment": experiment, "recipe": name}
    return {
        "folder": folder.find(COMMAND, values, list(map(_content_of, files)), None, "/sources.json"),
        "entry": {"files": files},
    }


# --- trainings ----------------------------------------------------------------------------------------------------


def _job(
    run: Run,
    config: Mapping,
    datasets: Mapping,
    commands: Mapping,
    folder: Folder,
    sha256: Callable[[Path | None], str | None],
) -> dict[str, Any]:
    """Return what the runs of a trainer in a group have in common: settings, inputs, code, and the files they read.

    sha256: gives that of a file of weights.
    """
    experiment = config["experiments"][run.experiment]
    of_loop = () if run.trainer.loop == STOCK else ("tuned",)
    settings = {key: experiment[key] for key in keys_that_decide(("training", "record", *of_loop))}
    code = run_code(run.recipe, run.trainer)
    if run.trainer.framework == FRAMEWORK:
        command = experiment["commands"][run.recipe]
        inputs = {"recipe": command, "initial_weights_sha256": None, "dataset": None}
        files = {"sources": [f"{commands[f'{run.experiment}/{run.recipe}']['folder']}/sources.json"]}
        return _plain({"settings": settings, "inputs": inputs, "code": code, "files": files})
    dataset, recipe = datasets[run.dataset], RECIPES[run.recipe]
    inputs = {
        "recipe": deciding_values(recipe, _shapes_seen(recipe, experiment, dataset)),
        "initial_weights_sha256": sha256(initial_weights_file(settings)),
        "dataset": dataset["content"],
    }
    is_packed = experiment["loader"].get("store", "files") != "files" and dataset["kind"] == "image_lists"
    files = {
        "prepared": [prepared_in(dataset["folder"])],
        "mean": [] if dataset["kind"] == "tokens" else mean_in(dataset["folder"])[:1],
        "packed": packed_in(dataset["folder"]) if is_packed else [],
        "tuning": [],
    }
    job = _plain({"settings": settings, "inputs": inputs, "code": {**code, "dataset": dataset["code"]}, "files": files})
    if is_timed(run.experiment, run.trainer, config):
        made = {"trainer": of_trainer(run), "settings": job["settings"], "inputs": job["inputs"]}
        job["files"]["tuning"] = [folder.find(TUNING, vars(run), made, deciding(job["code"]))]
    return job


def _own_recipes(config: Mapping, datasets: Mapping) -> list[dict[str, Any]]:
    """Return the user's own recipes, each with its network for the datasets that it trains on and for certificates."""
    shapes: dict[str, dict[tuple, None]] = {}
    for experiment in config["experiments"].values():
        for name in filterfalse(SHIPPED.__contains__, experiment["recipes"]):
            of_recipe = shapes.setdefault(name, {})
            for dataset in experiment["datasets"]:
                of_recipe |= dict.fromkeys(_shapes_seen(RECIPES[name], experiment, datasets[dataset]))
    return [as_document(RECIPES[name], of_recipe) for name, of_recipe in shapes.items()]


def _shapes_seen(recipe: Recipe, experiment: Mapping, dataset: Mapping) -> list[tuple[Shape, int]]:
    """Return the input shapes and classes of a recipe's network: as published, as trained, and as certified."""
    seen = seen_shape(merged_input(recipe.input, experiment["input"]), tuple(dataset["sample_shape"]))
    classes = dataset["classes"]
    return [(recipe.input_shape, recipe.published_classes), (seen, classes), (recipe.smallest_input, classes)]


def _plain(values: Mapping) -> dict[str, Any]:
    """Return values as JSON gives them back: records hold these."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _sha256_if_there(file: Path | None) -> str | None:
    return sha256_of(file) if file and file.is_file() else None


def is_timed(experiment: str, trainer: Trainer, config: Mapping) -> bool:
    """Return whether the tuning of a trainer is timed."""
    return trainer.loop != STOCK and bool(config["experiments"][experiment]["time_tuning"])


# --- certificates and cross-evaluations ---------------------------------------------------------------------------


def _certificate(
    group: tuple[str, str, str],
    trainers: list[Trainer],
    planned: list[Trainer],
    config: Mapping,
    jobs: Mapping,
    folder: Folder,
) -> dict[str, Any]:
    """Return the certificate of a group: its settings and recipe, trainers and file.

    planned: the trainers of the group with those that failed. A certificate that was made before they did is not made
        again.
    """
    experiment, recipe, dataset = group
    settings = {key: config["experiments"][experiment][key] for key in keys_that_decide(("training",))}
    for of_group in dict.fromkeys(map(tuple, (planned, trainers))):
        own = [jobs[f"{'/'.join(group)}/{trainer}"] for trainer in of_group]
        most = max(trainer.workers for trainer in of_group)
        made = {
            "settings": settings,
            "recipe": own[0]["inputs"]["recipe"] | {"certified_side": RECIPES[recipe].certified_side},
            "inputs": {key: own[0]["inputs"][key] for key in ("initial_weights_sha256", "dataset")},
            "trainers": list(map(str, of_group)),
        }
        code = [digest("certify"), *(deciding(job["code"]) for job in own)]
        names = {"experiment": experiment, "recipe": recipe, "dataset": dataset}
        file = folder.find(CERTIFICATE, names, _plain(made), code)
        if folder.has(file):
            break
    return _plain({**made, "made_by": code[0], "most_workers": most, "file": file})


def _evaluations(
    groups: Mapping, config: Mapping, runs: Iterable[Run], records: Mapping[str, str], jobs: Mapping, folder: Folder
) -> dict[str, dict[str, Any]]:
    """Return the records that each trainer evaluates, those of the previous trainer in its group, and the file.

    They are of groups that write weights and have at least two trainers.
    """
    of_trainers: dict[str, list[str]] = {}
    for run in runs:
        of_trainers.setdefault(of_trainer(run), []).append(records[run.id])
    found = {}
    for group, trainers in groups.items():
        if not config["experiments"][group[0]]["keep_weights"]:
            continue
        for place, trainer in enumerate(trainers):
            of = f"{'/'.join(group)}/{trainer}"
            evaluated = of_trainers[f"{'/'.join(group)}/{trainers[place - 1]}"]
            job = jobs[of]
            values = dict(zip(("experiment", "recipe", "dataset", "trainer"), (*group, trainer), strict=True))
            made = {"records": evaluated, "settings": job["settings"], "inputs": job["inputs"]}
            file = folder.find(EVALUATION, values, made, deciding(job["code"]))
            found[of] = {"records": evaluated, "file": file}
    return found
