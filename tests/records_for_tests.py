"""Records that fit the schema, for the tests of whatever reads records; and the tables of them."""

import copy
import json
from itertools import combinations
from pathlib import Path

from trainmark.plan.run import Run
from trainmark.records.record import PHASES
from trainmark.tables.tables import GROUP, read_records, runs_table

CODE = {"trainmark.training.run": "a" * 16, "trainmark.frameworks.adapter": "b" * 16}
"""Digests of the modules that every run has."""

DIVERGED = {"kind": "nan", "epoch": 1, "step": 1, "last_finite_loss": None}

OUT_OF_MEMORY = {
    "phase": "warm_up",
    "epoch": 1,
    "resident_mib": 600.5,
    "message": "601 MiB exceed the limit of 600 MiB",
}


SETTINGS = {
    "seed": 1,
    "architecture": "mlp-32",
    "parameters": 25450,
    "dropout": False,
    "initializer": "glorot_uniform",
    "optimizer": {"rule": "adam", "learning_rate": 0.001},
    "batch_size": 128,
    "dtype": "float32",
    "input": {"scale": 1 / 255, "subtract_mean": True, "crop": None, "mean_window": "same"},
    "experiment": {"seed": 1, "batch_size": "recipe", "input": {}, "step_losses": 100, "memory_limit_mib": None},
}


SAMPLES = [
    {"split": "test", "index": 0, "label": 0, "class_name": "negative", "probability": 0.125},
    {"split": "test", "index": 12500, "label": 1, "class_name": "positive", "probability": 0.875},
]
"""Scores of a run on texts of two classes."""


def run_of(
    framework="chainer", repeat=1, device="cpu", epochs=2, experiment="e", recipe="mnist-mlp-flux", dataset="digits"
):
    """The `run` of a record."""
    cell = Run(experiment, recipe, dataset, framework, device, epochs, repeat)
    return {"id": cell.id, **vars(cell), "workers": 1, "loop": "stock"}


def curve(epoch, loss=0.5, seconds=0.25):
    """An entry of the curves; the first epoch is the process's warm-up."""
    return {
        "epoch": epoch,
        "part": "warm_up" if epoch == 1 else "steady",
        "seconds": seconds,
        "batch_loss": loss,
        "evaluations": {"test": {"loss": loss, "accuracy": 0.75}},
    }


def session(host="h", gpu=None, first_epoch=1, cpus=(0, 1)):
    """A process that trained a run."""
    return {
        "host": host, "boot_id": "boot", "started": "2025-01-01T00:00:00+00:00", "held_seconds": [10.0, 12.0],
        "cpu_model": "Processor", "cpus": list(cpus), "gpu": gpu, "call": "2025-01-01T00:00:00+00:00",
        "first_epoch": first_epoch, "restart_seconds": 0,
    }  # fmt: skip


def record(framework="chainer", repeat=1, device="cpu", epochs=2, *, loss=0.5, seconds=0.25, changes=None, **run):
    """A record of a run that is ok. Every epoch has this test loss and takes these seconds.

    run: other parts of the run. changes: values by the path of keys to them, as in {"settings.dropout": True}.
    """
    curves = [curve(epoch, loss, seconds) for epoch in range(1, epochs + 1)]
    gpu = {"name": "G", "uuid": "GPU-1", "driver_version": "1", "memory_mib": 1024} if device == "gpu" else None
    made = {
        "schema_version": 5,
        "run": run_of(framework, repeat, device, epochs, **run),
        "order": None,
        "settings": copy.deepcopy(SETTINGS),
        "dataset": {"name": "digits", "content_sha256": "0" * 64, "samples": {"train": 1438, "test": 359}},
        "status": "ok",
        "diverged": None,
        "out_of_memory": None,
        "curves": curves,
        "step_losses": [2.3, 0.1 + 0.2],
        "result": {
            "epochs_trained": epochs,
            "training_seconds": 0.5 + epochs * seconds,
            "first_step_seconds": 0.5,
            "steady_epoch_seconds": seconds if epochs > 1 else None,
            "samples_per_second": 1438 / seconds if epochs > 1 and seconds else None,
            "test_loss": loss,
            "test_accuracy": 0.75,
            "train_loss": None,
            "train_accuracy": None,
        },
        "samples": [],
        "weights": {"file": "weights.npz", "sha256": "e" * 64},
        **_times(epochs, seconds),
        "resumes": 0,
        "sessions": [session(gpu=gpu and gpu["uuid"])],
        "machine": [],
        "disturbed": None,
        "energy": {"training_joules": None, "source": None, "reason": "this machine shows no energy counter"},
        "memory": {"peak_host_mib": 512.5, "peak_device_mib": 64.25 if device == "gpu" else None},
        "provenance": _provenance(framework, device, gpu),
    }
    return changed(made, changes or {})


def _times(epochs, seconds):
    phases = dict.fromkeys(PHASES, 0.125) | {"compilation": 0.5, "warm_up": seconds, "steady": (epochs - 1) * seconds}
    return {"phases_seconds": phases, "wall_seconds": sum(phases.values())}


def _provenance(framework, device, gpu):
    return {
        "host": "h",
        "cpu_model": "Processor",
        "cpu_cores": 2,
        "cpus": [0, 1],
        "threads": 2,
        "thread_pools": [],
        "memory_gib": 8,
        "load_1min": 0.5,
        "device": {"kind": device, "name": "G" if device == "gpu" else "Processor"},
        "gpu": gpu,
        "versions": {framework: "1.0"},
        "environment": {"kind": "venv", "name": ".venv", "packages": 1, "packages_sha256": "0" * 64},
        "variables": {},
        "scheduler": None,
        "python": "3.11",
        "platform": "Linux",
        "trainmark": "0.1.0",
        "code": {"sha256": "c" * 16, "modules": CODE | {f"trainmark.frameworks.{framework}": "d" * 16}},
        "git_commit": None,
        "git_clean": None,
        "started": "2025-01-01T00:00:00+00:00",
    }


def diverged(*arguments, kind="nan", **options):
    """A record of a run whose first loss was none."""
    found = record(*arguments, **options)
    loss = {"nan": "NaN", "inf": "Infinity"}[kind]
    absent = {"epochs_trained": 1, "steady_epoch_seconds": None, "samples_per_second": None, "test_loss": loss}
    return found | {
        "status": "diverged",
        "diverged": DIVERGED | {"kind": kind},
        "curves": [curve(1, loss)],
        "step_losses": [loss],
        "result": found["result"] | absent,
        "weights": None,
    }


def out_of_memory(*arguments, **options):
    """A record of a run that ended before its first epoch did."""
    found = record(*arguments, **options)
    return found | {
        "status": "out_of_memory",
        "out_of_memory": dict(OUT_OF_MEMORY),
        "curves": [],
        "step_losses": [],
        "result": dict.fromkeys(found["result"]) | {"epochs_trained": 0},
        "weights": None,
    }


def changed(record, changes):
    """A record with other values at some paths; `...` takes the key away. It changes the record that it is given."""
    for path, value in copy.deepcopy(changes).items():
        *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = record
        for part in outer:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return record


def certificates_of(runs, parities=None):
    """Certificates of all groups of a table of runs, each pair `rounding` but for those named.

    parities: class by the names of two trainers.
    """
    trainers = {}
    for run in runs[[*GROUP, "framework", "device"]].itertuples(index=False):
        trainers.setdefault(tuple(run[:3]), {})[run.framework, run.device] = None
    return {group: certificate_of(group, found, parities or {}) for group, found in trainers.items() if len(found) > 1}


def certificate_of(group, trainers, parities):
    """A certificate that fits the schema."""
    names = [f"{framework} on {device}" for framework, device in trainers]
    return {
        "schema_version": 1,
        **dict(zip(GROUP, group, strict=True)),
        "settings": {
            "seed": 1, "architecture": "mlp-32", "parameters": 25450, "classes": 10, "initializer": "glorot_uniform",
            "optimizer": {"rule": "adam", "learning_rate": 0.001}, "input_shape": [1, 28, 28],
            "trained_input_shape": [1, 28, 28], "dataset_sha256": "0" * 64, "steps": 10, "samples": 16,
            "evaluation_samples": 16,
        },
        "classes": {"rounding": 1e-9},
        "trainers": [
            {"framework": framework, "device": device, "versions": {framework: "1.0"}, "failure": None}
            for framework, device in trainers
        ],
        "pairs": [
            _certified_pair(first, second, parities.get((first, second), "rounding"))
            for first, second in combinations(names, 2)
        ],
    }  # fmt: skip


def _certified_pair(first, second, parity):
    size = {"bitwise": 0.0, "rounding": 2e-14, "single": 2e-7, "different": 0.25, "not certified": 0.0}[parity]
    differences = {"losses": size / 2, "gradients": size, "weights": size / 4, "evaluation": size / 8}
    place = {"stage": "steps", "step": 2, "layer": "dense1", "op": "Dense", "what": "backward", "difference": size}
    places = [place] if parity in ("single", "different") else []
    stages = {stage: {"parity": parity, "steps": 2, **differences, "updates": 1e-17} for stage in ("network", "steps")}
    stages["steps"]["evaluation"] = None
    failed = parity == "not certified"
    return {
        "first": first, "second": second, "parity": parity, "stages": {} if failed else stages,
        "drift": None if failed else {**differences, "losses": 3e-7, "weights": "Infinity"},
        "place": places[0] if places else None, "causes": places, "sentence": f"they are <{parity}>",
    }  # fmt: skip


def written_tables(folder: Path, *records):
    """(records by path, table of the runs) of these records, written under `folder` and read against the schema."""
    ids = [one["run"]["id"] for one in records]
    for one in records:
        path = folder / one["run"]["id"] / "record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one))
    by_path = read_records(folder, ids)
    return by_path, runs_table(by_path, ids)
