"""Where the workflow puts what it makes, and of which part of a dataset's entry it makes it."""

import json
from collections.abc import Iterable, Mapping

from trainmark.datasets.catalogue import kind_of
from trainmark.plan.run import EVALUATION, RUN_FOLDER

RESULTS = "results"
PLAN_FILE = "results/plan.json"
RECORD_FILE = f"results/runs/{RUN_FOLDER}/record.json"
TRACE_FILE = "results/traces/{experiment}/{recipe}/{dataset}/{framework}/{device}.npz"
CERTIFICATES = f"{RESULTS}/certificates"
EVALUATIONS = f"{RESULTS}/evaluations"
EVALUATION_FILE = f"{EVALUATIONS}/{EVALUATION}"
Trainers = Mapping[tuple[str, str, str], Iterable[tuple[str, str]]]
"""(framework, device) of the trainers of each (experiment, recipe, dataset)."""

FIGURES = f"{RESULTS}/figures"
FIGURE_FILE = f"{FIGURES}/" + "{experiment}/{recipe}/{dataset}/{figure}."
"""Of a figure, without its format."""

TABLES = f"{RESULTS}/tables"
MANIFEST = "manifest.json"
"""Beside the tables: of which records and certificates they are made, and their own SHA-256."""
TABLE_FILES = [
    f"{TABLES}/{name}"
    for name in (
        "runs.parquet", "curves.parquet", "summary.csv", "comparisons.csv", "agreement.csv", "summary.txt", MANIFEST,
    )
]  # fmt: skip
"""What collect_records makes of the records."""

FETCHING_KEYS = ("files", "folder", "embedded_in", "of")


def evaluation_files(config: Mapping, trainers: Trainers) -> list[str]:
    """The cross-evaluations of the groups that write their weights, by their places in their folder: one a trainer."""
    return [
        EVALUATION.format(experiment=experiment, recipe=recipe, dataset=dataset, framework=framework, device=device)
        for (experiment, recipe, dataset), found in trainers.items()
        if config["experiments"][experiment]["keep_weights"]
        for framework, device in found
    ]


def entry_to_fetch(name: str, catalogue: Mapping) -> str:
    """What a dataset's entry says of where its data come from, as JSON: nothing else makes a fetched file stale."""
    entry = catalogue[name]
    return json.dumps({key: entry[key] for key in FETCHING_KEYS if key in entry}, sort_keys=True)


def entry_to_prepare(name: str, catalogue: Mapping) -> str:
    """A dataset's entry as JSON, without `packed`: a packed store is made of what is prepared."""
    return json.dumps({key: value for key, value in catalogue[name].items() if key != "packed"}, sort_keys=True)


def prepared_folder(name: str) -> str:
    """Where a dataset lies prepared."""
    return f"results/datasets/{name}/prepared"


def base_folder(name: str, catalogue: Mapping) -> list[str]:
    """The prepared dataset that a dataset is a choice of classes of; none for others."""
    of = catalogue[name].get("of")
    return [prepared_folder(of)] if of else []


def mean_files(name: str, catalogue: Mapping) -> list[str]:
    """The mean image of a dataset and its picture; none for texts."""
    made = kind_of(name, catalogue) != "tokens"
    return [f"results/datasets/{name}/mean.{kind}" for kind in ("npy", "png")] if made else []


def mean_array(name: str, catalogue: Mapping) -> list[str]:
    """The mean image of a dataset, which trainings read; none for texts."""
    return mean_files(name, catalogue)[:1]


def packed_files(name: str, catalogue: Mapping) -> list[str]:
    """The packed images of a dataset, training images first; none where its entry does not ask for them."""
    made = catalogue[name].get("packed", False)
    return [f"results/datasets/{name}/packed/{split}.npy" for split in ("train", "test")] if made else []


def packed_training_images(name: str, catalogue: Mapping) -> list[str]:
    """The packed training images of a dataset; none where its entry does not ask for them."""
    return packed_files(name, catalogue)[:1]


def products(names: Iterable[str], catalogue: Mapping) -> list[str]:
    """Everything that is made of these datasets, trained on or not."""
    return [
        file
        for name in names
        for file in (prepared_folder(name), *mean_files(name, catalogue), *packed_files(name, catalogue))
    ]


def described(manifest: Mapping) -> str:
    """A prepared dataset in a line, for the end of the workflow."""
    samples, unreadable = manifest["samples"], len(manifest.get("unreadable", []))
    left_out = f", {unreadable} left out as unreadable" if unreadable else ""
    return (
        f"{manifest['dataset']}: {samples['train']} training and {samples['test']} test samples in "
        f"{manifest['classes']} classes{left_out}: {prepared_folder(manifest['dataset'])}"
    )
