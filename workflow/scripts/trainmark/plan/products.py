"""Paths of the files that the workflow makes, and the parts of a dataset's entry that they depend on."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainmark.datasets.catalogue import SPLITS, kind_of, store_file
from trainmark.plan.run import EVALUATION, OF_TRAINER, RUN_FOLDER, Run
from trainmark.trainer import STOCK, Trainer

RESULTS = "results"
PLAN_FILE = "results/plan.json"
RECORD_FILE = f"results/runs/{RUN_FOLDER}/record.json"
TRACE_FILE = f"results/traces/{OF_TRAINER}.npz"
TUNINGS = f"{RESULTS}/tuning"
TUNING = f"{OF_TRAINER}.json"
"""Path of a timed tuning under TUNINGS. trainer: the tuned one."""
TUNING_FILE = f"{TUNINGS}/{TUNING}"
GPU_CHECK_FILE = "results/gpu_checks/{framework}/{device}.json"
COMMAND_FOLDER = f"{RESULTS}/commands/" + "{experiment}/{recipe}"
"""Folder of the files that are fetched for a command."""

TRAINING_RULES = ("train", "run_command")
"""Rules whose jobs make records."""

CERTIFICATES = f"{RESULTS}/certificates"
EVALUATIONS = f"{RESULTS}/evaluations"
EVALUATION_FILE = f"{EVALUATIONS}/{EVALUATION}"
Trainers = Mapping[tuple[str, str, str], Iterable[Trainer]]
"""The trainers of each (experiment, recipe, dataset)."""

FIGURE_FOLDER = f"{RESULTS}/figures/" + "{experiment}/{recipe}/{dataset}"

TABLES = f"{RESULTS}/tables"
MANIFEST = "manifest.json"
"""File beside the tables. It lists the records and certificates they are made from, and the tables' SHA-256."""
TABLE_FILES = [
    f"{TABLES}/{name}"
    for name in (
        "runs.parquet", "curves.parquet", "summary.csv", "comparisons.csv", "variants.csv", "parity.csv",
        "agreement.csv", "speed_ups.csv", "break_even.csv", "targets.csv", "tuning.csv", "published.csv",
        "scaling.csv", "tidy.csv", "claims.csv", "summary.txt", MANIFEST,
    )
]  # fmt: skip
"""The outputs of collect_records."""

CHECKED_CLAIMS = f"{RESULTS}/claims_hold"
"""Empty file that is there once no claim fails."""

PAPER_FOLDER = f"{RESULTS}/paper"
PAPER_STAMP = f"{PAPER_FOLDER}/.made"
"""Empty file that is there once the paper kit is made."""
PAPER_FILES = "files.json"
"""File in the folder of the paper kit that lists what is made, and what the next call removes or makes again."""

FETCHING_KEYS = ("files", "folder", "embedded_in", "of")


def gpu_check(trainer: Trainer) -> list[str]:
    """Return the file of the check on which a job of a trainer on the GPU depends; an empty list on the CPU."""
    return [GPU_CHECK_FILE.format_map(trainer._asdict())] if trainer.device == "gpu" else []


def evaluation_files(config: Mapping, trainers: Trainers) -> list[str]:
    """Return the paths of the cross-evaluations in their folder: one per trainer of each group that writes weights."""
    return [
        EVALUATION.format(experiment=experiment, recipe=recipe, dataset=dataset, trainer=trainer)
        for (experiment, recipe, dataset), of_group in trainers.items()
        if config["experiments"][experiment]["keep_weights"]
        for trainer in of_group
    ]


def tuning_files(config: Mapping, runs: Iterable[Run]) -> list[str]:
    """Return the paths of the timed tunings in their folder: one per tuned trainer of a group."""
    return list(
        dict.fromkeys(TUNING.format_map(vars(run)) for run in runs if is_timed(run.experiment, run.trainer, config))
    )


def is_timed(experiment: str, trainer: Trainer, config: Mapping) -> bool:
    """Return whether the tuning of a trainer is timed."""
    return trainer.loop != STOCK and bool(config["experiments"][experiment]["time_tuning"])


def entry_to_fetch(name: str, catalogue: Mapping) -> str:
    """Return the keys of a dataset's entry that say where its data come from, as JSON.

    Only a change to these makes a fetched file stale.
    """
    entry = catalogue[name]
    return json.dumps({key: entry[key] for key in FETCHING_KEYS if key in entry}, sort_keys=True)


def entry_to_prepare(name: str, catalogue: Mapping) -> str:
    """Return a dataset's entry as JSON, without `packed`: packing comes after preparing and does not affect it."""
    return json.dumps({key: value for key, value in catalogue[name].items() if key != "packed"}, sort_keys=True)


def raw_folder(name: str) -> str:
    """Return the folder of the files that are fetched for a dataset."""
    return f"results/datasets/{name}/raw"


def prepared_folder(name: str) -> str:
    """Return the folder of a prepared dataset."""
    return f"results/datasets/{name}/prepared"


def base_folder(name: str, catalogue: Mapping) -> list[str]:
    """Return the folder of the prepared dataset from which a dataset takes its classes; an empty list for others."""
    of = catalogue[name].get("of")
    return [prepared_folder(of)] if of else []


def mean_files(name: str, catalogue: Mapping) -> list[str]:
    """Return the mean image of a dataset and its picture; an empty list for texts."""
    has_images = kind_of(name, catalogue) != "tokens"
    return [f"results/datasets/{name}/mean.{kind}" for kind in ("npy", "png")] if has_images else []


def mean_array(name: str, catalogue: Mapping) -> list[str]:
    """Return the mean image of a dataset, which trainings read; an empty list for texts."""
    return mean_files(name, catalogue)[:1]


def packed_files(name: str, catalogue: Mapping) -> list[str]:
    """Return the packed images of a dataset, training images first; an empty list without `packed` in its entry."""
    return _packed(name) if catalogue[name].get("packed") else []


def packed_to_train(name: str, catalogue: Mapping, loader: Mapping) -> list[str]:
    """Return the packed images that a training reads; an empty list if it reads image files, or arrays.

    loader: `loader` of the experiment.
    """
    asked = loader.get("store", "files") != "files" and kind_of(name, catalogue) == "image_lists"
    return _packed(name) if asked else []


def packed_folder(name: str) -> str:
    """Return the folder of the packed images of a dataset."""
    return f"results/datasets/{name}/packed"


def _packed(name: str) -> list[str]:
    return [str(store_file(Path(packed_folder(name)), split)) for split in SPLITS]


def packed_training_images(name: str, catalogue: Mapping) -> list[str]:
    """Return the packed training images of a dataset; an empty list without `packed` in its entry."""
    return packed_files(name, catalogue)[:1]


def products(names: Iterable[str], catalogue: Mapping) -> list[str]:
    """Return all files that are made from these datasets."""
    return [
        file
        for name in names
        for file in (prepared_folder(name), *mean_files(name, catalogue), *packed_files(name, catalogue))
    ]


def described(manifest: Mapping) -> str:
    """Describe a prepared dataset in one line, for the end of the workflow."""
    samples, unreadable = manifest["samples"], len(manifest.get("unreadable", []))
    left_out = f", {unreadable} left out as unreadable" if unreadable else ""
    return (
        f"{manifest['dataset']}: {samples['train']} training and {samples['test']} test samples in "
        f"{manifest['classes']} classes{left_out}: {prepared_folder(manifest['dataset'])}"
    )
