"""The table of runs: a row for each record."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd

from trainmark.frameworks.registry import settings_of_user
from trainmark.machine.disturbance import disturbance_in_words
from trainmark.records.record import decode_loss
from trainmark.records.resolved import batch_size_of
from trainmark.records.result import communication_share, cpu_share, waiting_share
from trainmark.tables.bounds import LEAST, load_columns
from trainmark.tables.comparability import WAITING_LIMIT
from trainmark.tables.costs import costs_of, working_seconds
from trainmark.tables.curves import reached_target
from trainmark.tables.formatting import counted, format_versions, number_ranges
from trainmark.tables.metrics import KNOWN, METRICS
from trainmark.trainer import Trainer

PATHS = {
    "status": "status", "diverged_kind": "diverged.kind", "diverged_step": "diverged.step",
    "out_of_memory_phase": "out_of_memory.phase", "out_of_memory_epoch": "out_of_memory.epoch",
    "out_of_memory_message": "out_of_memory.message", "resumes": "resumes", "epochs_trained": "result.epochs_trained",
    "energy_reason": "energy.reason", "cached_programs": "compilation_cache.hits",
    "compiled_programs": "compilation_cache.misses", "peak_share": "peak.share_of_peak",
    "parameters": "network.parameters", "dropout": "network.dropout", "seed": "settings.seed",
    "host": "provenance.host", "cpu_model": "provenance.cpu_model", "threads": "provenance.threads",
    "device_name": "provenance.device.name", "python": "provenance.python", "platform": "provenance.platform",
    "packages_sha256": "provenance.environment.packages_sha256", "trainmark": "provenance.trainmark",
    "git_commit": "provenance.git_commit", "git_clean": "provenance.git_clean",
    "code_sha256": "provenance.code.sha256", "shared_code_sha256": "provenance.code.shared",
    "scheduler": "provenance.scheduler.name", "job_id": "provenance.scheduler.job_id",
    "started": "provenance.started", "load_1min": "provenance.load_1min",
}  # fmt: skip
"""The columns that are values of a record, each with its path in it, beside the metrics."""

PEAKS = {
    "training_gflop_per_second": "training_flops_per_second",
    "peak_gflop_per_second": "matrix_flops_per_second",
    "memory_gb_per_second": "memory_bytes_per_second",
}
"""The columns of what a machine can do and a training reaches, each in 1e9 of its value in a record."""

TYPES = (
    dict.fromkeys(("diverged_step", "out_of_memory_epoch", "parameters", "batch_size", "optimizer_restarts"), "Int64")
    | dict.fromkeys((*METRICS, "target_accuracy", "target_seconds", "target_epochs"), "float64")
    | dict.fromkeys(("training_waiting_share", "foreign_share", *LEAST.values()), "float64")
    | {"dropout": "boolean"}
)

SLOWING = ("cap", "slowdown", "limit")
"""The ends of the reasons for which a GPU is slowed down, such as "sw_thermal_slowdown"; others are harmless."""

_GPU_FACTS = {
    "name": "{}", "driver_version": "driver {}", "cuda_version": "CUDA {}", "memory_mib": "{} MiB", "reason": "{}",
}  # fmt: skip
"""The properties of a GPU that do not change between runs, and their format; `reason` says why others are unknown."""


def runs_table(
    records: dict[str, dict], order: Sequence[str], evaluations: Iterable[Mapping] = (), prices: Mapping | None = None
) -> pd.DataFrame:
    """Make the table of runs: one row per run, in the order of `records`.

    order: the run ids in the order of training; a run's number is its position in it, from 1.
    evaluations: cross-evaluations of the runs' weights. prices: those of the config; None for none.
    """
    evaluated = {run_id: entry for evaluation in evaluations for run_id, entry in evaluation["runs"].items()}
    numbers = {run_id: number for number, run_id in enumerate(order, start=1)}
    rows = [
        {
            "number": numbers[record["run"]["id"]],
            **record["run"],
            **{column: _value(record, place) for column, place in PATHS.items()},
            **{name: decode_loss(_value(record, metric.path)) for name, metric in KNOWN.items() if metric.path},
            **_computed(record, evaluated.get(record["run"]["id"])),
            **_machine(record),
            **_waiting(record),
            **(reached := reached_target(record)),
            **load_columns(record, reached["target_seconds"]),
            **costs_of(record, prices),
            "scored_texts": json.dumps(record["scored_texts"]),
            "record": f"runs/{record['run']['id']}/{Path(path).parent.name}/record.json",
            "record_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        }
        for path, record in records.items()
    ]
    table = pd.DataFrame(rows).astype(TYPES)
    model = table["gpu"].where(table["device"] == "gpu", table["cpu_model"]).fillna("unknown")
    of_machines = table.groupby([model, *(table[key] for key in ("device", "threads", "workers"))])
    peak = of_machines["peak_gflop_per_second"].transform("max")  # all peaks are of float32
    return table.assign(machine_peak_share=table["training_gflop_per_second"] / peak)


def _value(record: Mapping, path: str) -> Any:
    """The value at a path of a record, such as "result.test_loss"; None where a part of it is null."""
    return reduce(lambda part, key: None if part is None else part[key], path.split("."), record)


def _computed(record: Mapping, evaluation: Mapping | None) -> dict:
    """The columns that follow from several values of a record, and from the evaluation by another trainer."""
    network, peak = record["network"], record["peak"]
    causes = record["disturbed"]["causes"] if record["disturbed"] else []
    return {
        "attempts": 1 + len(record["other_attempts"]),
        "working_seconds": working_seconds(record),
        "communication_share": communication_share(record),
        "cpu_share": cpu_share(record),
        "batch_size": batch_size_of(record) if network else None,
        "optimizer_restarts": record["settings"].get("optimizer_restarts", 0) if network else None,
        "disturbed": ", ".join(cause["cause"] for cause in causes),
        "disturbance": disturbance_in_words(record["disturbed"]),
        "calls": " and ".join(dict.fromkeys(session["call"] or "by hand" for session in record["sessions"])),
        "day": record["provenance"]["started"][:10],
        **{name: peak and peak[key] / 1e9 for name, key in PEAKS.items()},
        "machine_peak_share": None,  # it depends on other runs
        "evaluated_by": Trainer.parse(evaluation["trainer"]).name if evaluation else "",
        "evaluated_by_other_code": bool(evaluation and not evaluation["current_code"]),
        "audited_epoch": evaluation["audit"]["epoch"] if evaluation and evaluation["audit"] else None,
    }


def _waiting(record: Mapping) -> dict:
    """The share of its time that a run waited for data; if the share of its steady epochs, or without any of all
    epochs, is beyond the limit, this in words.
    """
    share, steady = waiting_share(record["curves"]), record["result"]["waiting_share"]
    largest, epochs = (share, "its epochs") if steady is None else (steady, "its steady epochs")
    waited = f"{100 * largest:.0f} % of {epochs}" if largest is not None and largest > WAITING_LIMIT else ""
    return {"training_waiting_share": share, "waited": waited}


def _machine(record: Mapping) -> dict:
    """Machine and software of the last process that trained the run, and the machines of all its processes."""
    provenance, last, trainer = record["provenance"], record["sessions"][-1], Trainer.of(record["run"])
    gpu, environment = provenance["gpu"] or {}, provenance["environment"]
    reasons = (gpu.get("at_end") or {}).get("throttle_reasons") or []
    machines = dict.fromkeys(_machine_of(session, trainer) for session in record["sessions"])
    return {
        "cpus": number_ranges(last["cpus"]),
        "held_cpus": len(last["cpus"]),
        "gpu": ", ".join(form.format(gpu[key]) for key, form in _GPU_FACTS.items() if gpu.get(key) is not None) or None,
        "gpu_throttled": ", ".join(one.replace("_", " ") for one in reasons if one.endswith(SLOWING)),
        "versions": format_versions(provenance["versions"]),
        "library_settings": _settings(last, trainer),
        "environment": " ".join(filter(None, (environment["kind"], environment.get("name")))),
        "session_machines": " and ".join(machines),
        "machines": len(machines),
    }


def _settings(session: Mapping, trainer: Trainer) -> str:
    """What a user set of the settings of a process: "A=1, B=2"; "" for nothing."""
    return ", ".join("=".join(setting) for setting in settings_of_user(trainer, session["settings"]).items())


def _machine_of(session: Mapping, trainer: Trainer) -> str:
    """The host, GPU, CPUs and settings of a process in words. They may differ between processes of one host."""
    cpus, settings = f"{counted(len(session['cpus']), 'CPU')} of {session['cpu_model']}", _settings(session, trainer)
    machine = ", ".join(filter(None, (session["host"], session["gpu"], cpus)))
    return f"{machine} with {settings}" if settings else machine
