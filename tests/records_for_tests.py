"""Records that fit the schema, for the tests of whatever reads records; and the tables of them."""

import copy
import json
from contextlib import suppress
from itertools import combinations
from pathlib import Path

from trainmark.checks.records import read_records
from trainmark.files.seal import digest_of, sealed
from trainmark.machine.disturbance import disturbance, disturbance_of
from trainmark.machine.watch import COUNTED
from trainmark.parity import certificate
from trainmark.parity.epoch_check import LOSSES, UPDATE
from trainmark.plan.keys import key_of_record
from trainmark.plan.run import Run
from trainmark.records.record import PHASES, SCHEMA_VERSION
from trainmark.records.resolved import batch_size_of, epoch_steps_of
from trainmark.records.result import peak_shares, result
from trainmark.records.step_losses import encode_step_losses
from trainmark.tables.frames import rows_of
from trainmark.tables.numbers import as_table
from trainmark.tables.pairs import comparisons
from trainmark.tables.runs import runs_table
from trainmark.tables.trainers import is_compared, trainer_pairs
from trainmark.trainer import TRAINER, Trainer
from trainmark.variant import GROUP

CODE = {"sha256": "c" * 16, "shared": "a" * 16}
"""The code of runs and certificates; that of a training also names the one that prepared its dataset."""

DIVERGED = {"kind": "nan", "epoch": 1, "step": 1, "last_finite_loss": None}

OUT_OF_MEMORY = {
    "phase": "warm_up",
    "epoch": 1,
    "resident_mib": 600.5,
    "message": "601 MiB exceed the limit of 600 MiB",
}


SETTINGS = {"seed": 1, "batch_size": "recipe", "input": {}, "memory_limit_mib": None}

RECIPE = {
    "optimizer": {"rule": "adam", "learning_rate": 0.001},
    "initializer": "glorot_uniform",
    "batch_size": 128,
    "input": {
        "scale": 1 / 255, "subtract_mean": True, "crop": None, "mean_window": "same", "random_crop": False,
        "random_flip": False,
    },
}  # fmt: skip
"""What the recipe decided, as far as a record is held to it."""

NETWORK = {
    "architecture": "mlp-32", "parameters": 25450, "dropout": False, "dtype": "float32",
    "initial_weights_sha256": "1" * 64,
}  # fmt: skip


SCORED_TEXTS = [
    {"split": "test", "index": 0, "label": 0, "class_name": "negative", "probability": 0.125},
    {"split": "test", "index": 12500, "label": 1, "class_name": "positive", "probability": 0.875},
]
"""Scores of a run on texts of two classes."""


def run_of(
    framework="chainer", repeat=1, device="cpu", epochs=2, experiment="e", recipe="mnist-mlp-flux", dataset="digits",
    loop="stock", workers=1,
):  # fmt: skip
    """The `run` of a record."""
    return Run(experiment, recipe, dataset, Trainer(framework, device, loop, workers), epochs, repeat).values


def curve(epoch, loss=0.5, seconds=0.25):
    """An entry of the curves; the first epoch is the process's warm-up."""
    return {
        "epoch": epoch,
        "part": "warm_up" if epoch == 1 else "steady",
        "seconds": seconds,
        "waiting_seconds": None,
        "batches_sha256": f"{epoch:016x}",
        "batch_loss": loss,
        "evaluations": {"test": {"loss": loss, "accuracy": 0.75, "top5_accuracy": None}},
    }


def own_epoch(entry):
    """What a rank measured of an epoch; half of the time of two CPUs it computed."""
    begin, seconds = 10.0 + entry["epoch"], entry["seconds"]
    moments = [begin, begin, begin + seconds, begin + seconds]
    return {"moments": moments, "cpu_seconds": seconds, "share_losses": None, "weights_sha256": None}


def evaluated(loss, accuracy, top5_accuracy=None):
    """An evaluation as a record holds it."""
    return {"loss": loss, "accuracy": accuracy, "top5_accuracy": top5_accuracy}


def streamed(record, waiting=0.0, top5_accuracy=0.9, evaluation_steps=None):
    """A record of a run that trained from a stream of images in more than 5 classes. It changes what it is given.

    waiting: share of each epoch that it waited for batches.
    """
    steps = epoch_steps_of(record)
    record["settings"]["evaluation_steps"] = evaluation_steps
    for entry in record["curves"]:
        entry["waiting_seconds"] = waiting * entry["seconds"]
        for evaluation in entry["evaluations"].values():
            evaluation["top5_accuracy"] = top5_accuracy
        for step in range(evaluation_steps or steps, steps, evaluation_steps or steps):
            loss = entry["evaluations"]["test"]["loss"]
            record["step_evaluations"].append({
                "epoch": entry["epoch"], "step": (entry["epoch"] - 1) * steps + step,
                **evaluated(loss, 0.5, top5_accuracy),
                "training_seconds": (entry["epoch"] - 1 + step / steps) * entry["seconds"],
            })  # fmt: skip
    if record["initial_evaluation"]:
        record["initial_evaluation"]["top5_accuracy"] = top5_accuracy
    recorded = record["result"]
    record["result"] = result(record["curves"], recorded["first_step_seconds"], record["dataset"]["samples"]["train"])
    return resealed(record)


def session(host="h", gpu=None, first_epoch=1, cpus=(0, 1), settings=()):
    """A process that trained a run."""
    return {
        "host": host, "boot_id": "boot", "started": "2025-01-01T00:00:00+00:00", "held_seconds": [10.0, 10.75],
        "cpu_model": "Processor", "cpus": list(cpus), "gpu": gpu, "settings": dict(settings),
        "call": "2025-01-01T00:00:00+00:00", "first_epoch": first_epoch, "restart_seconds": 0,
    }  # fmt: skip


def record(
    framework="chainer", repeat=1, device="cpu", epochs=2, *, loss=0.5, seconds=0.25, settings=(), changes=None, **run
):
    """A record of a run that is ok. Every epoch has this test loss and takes these seconds.

    run: other parts of the run. settings: in place of those of SETTINGS.
    changes: values by the path of keys to them, as in {"network.dropout": True}.
    """
    curves = [curve(epoch, loss, seconds) for epoch in range(1, epochs + 1)]
    gpu = {"name": "G", "uuid": "GPU-1", "driver_version": "1", "memory_mib": 1024} if device == "gpu" else None
    made = {
        "schema_version": SCHEMA_VERSION,
        "run": run_of(framework, repeat, device, epochs, **run),
        "order": None,
        "settings": copy.deepcopy(SETTINGS) | dict(settings),
        "network": dict(NETWORK),
        "dataset": {
            "name": run.get("dataset", "digits"),
            "content_sha256": "0" * 64,
            "samples": {"train": 1438, "test": 360},
            "mean_sha256": None,
        },
        "inputs": {"recipe": copy.deepcopy(RECIPE), "initial_weights_sha256": None, "dataset": "d" * 8},
        "status": "ok",
        "diverged": None,
        "out_of_memory": None,
        "curves": curves,
        "epochs": [],
        "initial_evaluation": None,
        "step_evaluations": [],
        "counted": {},
        "result": result(curves, 0.5, 1438),
        "scored_texts": [],
        "weights": {"file": "weights.npz", "sha256": "e" * 64, "audit": None},
        **_times(epochs, seconds),
        "compilation_cache": None,
        "resumes": 0,
        "sessions": [session(gpu=gpu and gpu["uuid"]) | {"held_seconds": [10.0, 11.0 + epochs * seconds]}],
        "machine": [stretch(epochs, seconds)],
        "disturbed": None,
        "other_attempts": [],
        "energy": {"training_joules": None, "source": None, "reason": "this machine has no energy counter"},
        "memory": {"peak_host_mib": 512.5, "peak_device_mib": 64.25 if device == "gpu" else None},
        "peak": None,
        "provenance": _provenance(framework, device, gpu),
    }
    return _watched(changed(_counted(made), changes or {}))


def _watched(record):
    """A record whose machine was watched, and held, for as long as it trained; what it counted keeps its share."""
    with suppress(LookupError, TypeError):  # of a record that is broken otherwise
        trained = sum(record["phases_seconds"][phase] for phase in ("compilation", "warm_up", "steady"))
        factor = max(1.0, trained / sum(one["seconds"] for one in record["machine"]))
        for one in record["machine"]:
            one |= {key: one[key] * factor for key in COUNTED if one[key]}
        if factor > 1:
            record["disturbed"] = disturbance_of([record])
    return resealed(record)


def _counted(record):
    """A record with what follows from its settings and curves; not what a test set in it."""
    with suppress(LookupError, TypeError):  # of a record that is broken otherwise
        samples, epochs = record["dataset"]["samples"]["train"], len(record["curves"])
        of_epoch = epoch_steps_of(record)
        steps = epochs * of_epoch
        record["counted"] = {"samples": epochs * samples, "batches": steps, "updates": steps}
        if not any(one["share_losses"] for one in record["epochs"]):
            record["epochs"] = [own_epoch(entry) for entry in record["curves"]]
        for entry in record["curves"]:
            entry.setdefault("step_losses", encode_step_losses([float(entry["batch_loss"])] * of_epoch))
        if record["network"]["dropout"] and not record["initial_evaluation"]:
            record["initial_evaluation"] = evaluated(2.25, 0.1)
    return record


def evaluation_entry(record, **changes):
    """The entry of a cross-evaluation that gets what the record says."""
    return {
        "trainer": "other-cpu", "versions": {}, "code_sha256": "d" * 16,
        "current_code": True, "weights_sha256": record["weights"]["sha256"], "loss": record["result"]["test_loss"],
        "audit": {"epoch": 1, "by": "numpy", "differences": []},
        "accuracy": record["result"]["test_accuracy"],
    } | changes  # fmt: skip


def disturbed(**counts):
    """Changes of a record of two CPUs: in one second of both epochs the machine counted this, in seconds."""
    watched = stretch(2, 0.25) | {"seconds": 1.0, "cpu_seconds": 0.9} | counts
    return {"machine": [watched], "disturbed": disturbance([watched], 2)}


def stretch(epochs, seconds):
    """What the machine did from the compilation to the last epoch, on a system that counts nothing."""
    watched = 0.75 + epochs * seconds
    unknown = dict.fromkeys((*COUNTED, "gpu_processes"))
    return unknown | {"epochs": [0, epochs], "seconds": watched, "cpu_seconds": watched / 2}


def _times(epochs, seconds):
    phases = dict.fromkeys(PHASES, 0.125) | {"compilation": 0.5, "warm_up": seconds, "steady": (epochs - 1) * seconds}
    return {"phases_seconds": phases, "wall_seconds": sum(phases.values())}


def losing(*epochs):
    """Changes of a record: the losses of the first steps of its first epochs; those of the other steps are 0.5."""
    sizes = [RECIPE["batch_size"]] * 11 + [30]
    changes = {}
    for place, first in enumerate(epochs):
        losses = [*first, *[0.5] * (len(sizes) - len(first))]
        mean = sum(size * loss for size, loss in zip(sizes, losses, strict=True)) / sum(sizes)
        changes |= {f"curves.{place}.step_losses": encode_step_losses(losses), f"curves.{place}.batch_loss": mean}
    return changes


ON_ONE_CPU = {"sessions.0.cpus": [0], "provenance.cpus": [0], "provenance.threads": 1}
"""Changes of a record that held one CPU."""


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
        "code": CODE | {"dataset": "b" * 8},
        "git_commit": None,
        "git_clean": None,
        "started": "2025-01-01T00:00:00+00:00",
    }


def diverged(framework="chainer", repeat=1, *arguments, kind="nan", **options):
    """A record of a run whose first loss was none."""
    found = record(framework, repeat, *arguments, **options)
    loss = {"nan": "NaN", "inf": "Infinity"}[kind]
    curves = [curve(1, loss)]
    found |= {
        "status": "diverged",
        "diverged": DIVERGED | {"kind": kind},
        "curves": curves,
        "result": result(curves, 0.5, 1438),
        **_times(1, 0.25),
        "machine": [stretch(1, 0.25)],
        "weights": None,
    }
    return retimed(_counted(found))


def out_of_memory(*arguments, **options):
    """A record of a run that ended before its first epoch did."""
    found = record(*arguments, **options)
    found |= {
        "status": "out_of_memory",
        "out_of_memory": dict(OUT_OF_MEMORY),
        "curves": [],
        "result": result([], None, 1438),
        "weights": None,
    }
    return sealed(_counted(found))


def changed(record, changes):
    """A record with other values at some paths, resealed; `...` takes a key away. It changes what it is given."""
    for path, value in copy.deepcopy(changes).items():
        *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = record
        for part in outer:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    if not any(path.startswith(("counted", "epochs")) for path in changes):
        _counted(record)
    return resealed(record)


def with_peak(record, matrix_flops=2e11, sample_flops=10**6):
    """A record with these floating-point operations per second of its machine, and of the training of a sample."""
    peak = {
        "matrix_flops_per_second": matrix_flops, "memory_bytes_per_second": 2.5e10, "threads": 2, "dtype": "float32",
        "measured": "2026-11-25T10:00:00.000+00:00", "training_flops_per_sample": sample_flops,
    }  # fmt: skip
    return changed(record, {"peak": peak | peak_shares(record["curves"], record["dataset"]["samples"]["train"], peak)})


def with_other_ranks(record, together_seconds, alone_seconds):
    """A record of several workers whose ranks all measured the same; a step takes so long together and alone."""
    of_rank = {
        key: record[key]
        for key in ("sessions", "phases_seconds", "wall_seconds", "epochs", "machine", "energy", "memory")
    }
    samples, workers = batch_size_of(record), record["run"]["workers"]
    shares = [samples // workers + (rank < samples % workers) for rank in range(workers)]
    measured = {
        "steps": 1, "samples": samples, "alone_samples": shares,
        "together_seconds": [together_seconds] * 9, "alone_seconds": [alone_seconds] * 9,
    }  # fmt: skip
    others = [of_rank] * (workers - 1)
    return changed(record, {"other_ranks": others, "communication": measured, "replays": []})


def timed_tuning(ratios=(0.5, 0.9), taken=None, threads=2, settings=SETTINGS, framework="a"):
    """A timed tuning without its digest: six turns of two epochs of 100 samples, in which the stock loop takes 8 s.

    ratios: of each step to those before it that were taken. taken: whether each step was; None: all.
    """
    steps, seconds = [], 8.0
    for place, ratio in enumerate(ratios):
        noise = [1 + turn / 1000 for turn in range(-3, 3)]
        times = {"before_seconds": [seconds] * 6, "seconds": [seconds * ratio * factor for factor in noise]}
        is_taken = taken is None or taken[place]
        text = f"step {place + 1}, which takes {'m' * 20}"
        steps.append({"step": f"s{place}", "text": text, "threads": 2, "taken": is_taken} | times)
        seconds *= ratio if is_taken else 1
    return {
        "experiment": "e", "recipe": "mnist-mlp-flux", "dataset": "digits",
        "trainer": str(Trainer(framework, "cpu", "tuned")),
        "inputs": {
            "settings": dict(settings), "recipe": copy.deepcopy(RECIPE), "dataset_sha256": "d" * 64, "code": "c" * 16,
        },
        "machine": {
            "host": "h", "cpu_model": "a CPU", "cpus": 2, "gpu": None, "settings": {}, "packages_sha256": "e" * 64,
        },
        "started": "2025-01-01T00:00:00+00:00", "wall_seconds": 60.5, "left_out": None,
        "turn": {"epochs": 2, "samples": 200}, "epoch_samples": 100, "steps": steps, "threads": threads,
    }  # fmt: skip


def retimed(record):
    """A record whose other clocks follow from its curves and phases. It changes what it is given."""
    record["epochs"] = [own_epoch(entry) for entry in record["curves"]]
    record["wall_seconds"] = sum(record["phases_seconds"].values())
    return held_from(_watched(record), 10.0)


def held_from(record, start):
    """A record whose process held its CPUs from this time on."""
    watched = sum(one["seconds"] for one in record["machine"])
    return changed(record, {"sessions.0.held_seconds": [start, start + watched]})


def compiling(record, seconds):
    """A record whose compilation takes so many seconds more. It changes what it is given."""
    first_step, phases = record["result"]["first_step_seconds"] + seconds, record["phases_seconds"]
    changed(
        record,
        {
            "result.first_step_seconds": first_step,
            "result.training_seconds": first_step + sum(entry["seconds"] for entry in record["curves"]),
            "phases_seconds.compilation": phases["compilation"] + seconds,
        },
    )
    return retimed(record)


def resealed(record):
    """A record with the digest of what it holds now: what a forger who knows it would write."""
    return record | {"sha256": digest_of(record)}


def place_of(record):
    """The path of a record in a results folder, by what it says that it was made from."""
    return f"runs/{record['run']['id']}/{key_of_record(record)}/record.json"


def certificates_of(runs, parities=None):
    """Certificates of all groups of a table of runs, each pair `rounding` but for those named.

    parities: class by the names of two trainers.
    """
    trainers = {}
    for run in runs[[*GROUP, *TRAINER]].itertuples(index=False):
        trainers.setdefault(tuple(run[:3]), {})[Trainer(*run[3:])] = None
    return {group: certificate_of(group, found, parities or {}) for group, found in trainers.items() if len(found) > 1}


def certificate_of(group, trainers, parities):
    """A certificate that fits the schema."""
    names = [trainer.name for trainer in trainers]
    return sealed({
        "schema_version": certificate.SCHEMA_VERSION,
        **dict(zip(GROUP, group, strict=True)),
        "settings": {
            "architecture": "mlp-32", "parameters": 25450, "classes": 10, "input_shape": [1, 28, 28],
            "trained_input_shape": [1, 28, 28], "dataset_sha256": "0" * 64, "steps": 10, "batch_size": 16,
            "evaluation_samples": 16, "epochs": {"batches": [15, 15], "samples": [1438, 1438], "batch_size": 100},
            "initial_weights_sha256": None, "recipe": copy.deepcopy(RECIPE),
            "experiment": {key: SETTINGS[key] for key in ("seed", "batch_size", "input")},
        },
        "code": dict(CODE),
        "parity_classes": {"rounding": 1e-9},
        "trainers": [
            {
                "trainer": str(trainer), "versions": {trainer.framework: "1.0"}, "code": dict(CODE),
                "failure": None, "precision": [], "checks": {},
            }
            for trainer in trainers
        ],
        "pairs": [
            _certified_pair(first, second, parities.get((first, second), "rounding"))
            for first, second in combinations(names, 2)
        ],
    })  # fmt: skip


EPOCHS = [
    {"what": LOSSES, "difference": 3e-7, "allowed": 1e-4, "step": 1, "layer": None},
    {"what": UPDATE, "difference": "Infinity", "allowed": "Infinity", "step": None, "layer": "dense1"},
]


def _certified_pair(first, second, parity):
    size = {"bitwise": 0.0, "rounding": 2e-14, "single": 2e-7, "different": 0.25, "not certified": 0.0}[parity]
    differences = {"losses": size / 2, "gradients": size, "weights": size / 4, "evaluation": size / 8}
    location = {"stage": "steps", "step": 2, "layer": "dense1", "op": "Dense", "what": "backward", "difference": size}
    locations = [location] if parity in ("single", "different") else []
    stages = {stage: {"parity": parity, "steps": 2, **differences, "updates": 1e-17} for stage in ("network", "steps")}
    stages["steps"]["evaluation"] = None
    failed = parity == "not certified"
    return {
        "first": first, "second": second, "parity": parity, "stages": {} if failed else stages,
        "float32": None if failed else {"loss": 2e-8}, "epochs": None if failed else EPOCHS, "reasons": [],
        "location": locations[0] if locations else None, "causes": locations, "sentence": f"they are <{parity}>",
    }  # fmt: skip


def written_tables(folder: Path, *records, evaluations=()):
    """(records by path, table of the runs) of these records, written to a results folder and read."""
    paths = {one["run"]["id"]: place_of(one) for one in records}
    for one in records:
        path = folder / place_of(one)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one))
    by_path = read_records(folder, paths)
    return by_path, runs_table(by_path, list(paths), evaluations)


def compared_pairs(runs, parities=None, *, certificates=None, **more):
    """The pairs of trainers of these runs that are compared. All are certified, unless `certificates` says otherwise.

    parities: see `certificates_of`. more: what `trainer_pairs` takes.
    """
    certified = certificates_of(runs, parities) if certificates is None else certificates
    return list(filter(is_compared, trainer_pairs(runs, certified, **more)))


def compared(runs, metric=None, **options):
    """The rows that compare the trainers of these runs, by one metric or by all. options: those of `compared_pairs`."""
    rows = rows_of(as_table(comparisons(compared_pairs(runs, **options))))
    return [row for row in rows if metric in (None, row["metric"])]
