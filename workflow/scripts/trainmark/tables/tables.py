"""Makes tables from records, with one row per run or per setting."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from statistics import median
from typing import Any, cast

import pandas as pd

from trainmark.errors import RecordError
from trainmark.frameworks.registry import settings_of_user
from trainmark.machine.disturbance import disturbance_in_words
from trainmark.plan.keys import key_of_record
from trainmark.plan.run import Run
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.record import PHASES, decode_loss, read_record
from trainmark.records.resolved import batch_size_of
from trainmark.records.result import communication_share, cpu_share
from trainmark.tables.costs import costs_of
from trainmark.tables.curves import TARGET_COLUMNS, reached_target
from trainmark.tables.formatting import format_versions, is_lasting, number_ranges
from trainmark.tables.mixed_environments import code_versions
from trainmark.tables.peaks import PEAK_METRICS, peak_of, with_machine_shares
from trainmark.tables.waiting import SHARES, waiting_of
from trainmark.trainer import TRAINER, Trainer

GROUP = ["experiment", "recipe", "dataset"]
"""The columns that identify a section of the report, and a figure."""

SETTING = [*GROUP, *TRAINER, "epochs"]
"""The columns that identify a setting. Runs of one setting differ only in their repeat."""

COLUMNS = {
    "training_seconds": ("training, s", "result.training_seconds"),
    "first_step_seconds": ("first step, s", "result.first_step_seconds"),
    "steady_epoch_seconds": ("steady epoch, s", "result.steady_epoch_seconds"),
    "samples_per_second": ("samples/s", "result.samples_per_second"),
    "waiting_share": ("waiting for data", "result.waiting_share"),
    "test_loss": ("test loss", "result.test_loss"),
    "test_accuracy": ("test accuracy", "result.test_accuracy"),
    "test_top5_accuracy": ("test top-5 accuracy", "result.test_top5_accuracy"),
    "train_loss": ("train loss", "result.train_loss"),
    "train_accuracy": ("train accuracy", "result.train_accuracy"),
    "peak_host_mib": ("peak memory, MiB", "memory.peak_host_mib"),
    "peak_device_mib": ("peak GPU memory, MiB", "memory.peak_device_mib"),
    "training_joules": ("energy of training, J", "energy.training_joules"),
}
"""The metrics of the summary. For each name: its heading, and the path of its value in a record."""

METRICS = {name: heading for name, (heading, _) in COLUMNS.items()} | {
    "epoch_joules": "energy per epoch, J",
    "cost": "cost",
    "epoch_cost": "cost per epoch",
    **PEAK_METRICS,
}
"""The heading of each metric of the summary; costs are in the currency of the config's prices."""

HEADINGS = METRICS | {"target_seconds": "time to accuracy, s"}
"""Also those of the metrics that are compared but have no median here, because not every run reaches the target."""

PHASE_METRICS = {f"phases.{phase}": phase.replace("_", " ") for phase in PHASES} | {"wall_seconds": "wall time"}
"""The heading of each phase of a run, and of its wall time; all in seconds."""


STATISTICS: dict[str, Callable[[list[float]], float]] = {"median": median, "min": min, "max": max}
"""The statistics of a metric in the summary. Repeats are too few for a finer measure of spread."""

CACHE_COUNTS = {"cached_programs": "hits", "compiled_programs": "misses"}
"""The columns of the counts of the compilation cache, and their keys in a record."""


def read_records(folder: Path, paths: Mapping[str, str]) -> dict[str, dict]:
    """Read records; return them by path, in the given order.

    folder: the results folder. paths: the path in it of each record, by run id.

    Raises RecordError if a record can't be read, belongs to another run than its path says, or has another key.
    """
    records = {}
    for run_id, file in paths.items():
        path = folder / file
        record = read_record(path)
        trained = Run.of(record["run"]).id
        if (record["run"]["id"], trained, key_of_record(record)) != (run_id, run_id, path.parent.name.split(".")[0]):
            raise RecordError(
                f"{path} is the record of another run, {trained}: it was copied or moved; delete it, and snakemake "
                "trains the run again"
            )
        records[str(path)] = record
    return records


def group_of(record: Mapping) -> tuple[str, str, str]:
    """Experiment, recipe and dataset of a record."""
    run = record["run"]
    return run["experiment"], run["recipe"], run["dataset"]


def runs_table(
    records: dict[str, dict], order: Sequence[str], evaluations: Iterable[Mapping] = (), prices: Mapping | None = None
) -> pd.DataFrame:
    """Make the table of runs: one row per run, in the order of `records`.

    order: the run ids in the order of training; a run's number is its position in it, from 1.
    evaluations: cross-evaluations of the runs' weights.
    prices: the prices of the config; None for none.
    """
    evaluated = {run_id: entry for evaluation in evaluations for run_id, entry in evaluation["runs"].items()}
    numbers = {run_id: number for number, run_id in enumerate(order, start=1)}
    rows = [
        {
            "number": numbers[record["run"]["id"]],
            **record["run"],
            **_status(record),
            **_measurements(record),
            **_training(record),
            "seed": record["settings"]["seed"],
            **_machine(record),
            **_disturbance(record),
            **waiting_of(record),
            **reached_target(record),
            **costs_of(record, prices),
            **peak_of(record),
            **_evaluation(evaluated.get(record["run"]["id"])),
            "scored_texts": json.dumps(record["scored_texts"]),
            "record": f"runs/{record['run']['id']}/{Path(path).parent.name}/record.json",
            "record_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        }
        for path, record in records.items()
    ]
    integers = dict.fromkeys(
        ["diverged_step", "out_of_memory_epoch", "parameters", "batch_size", "optimizer_restarts"], "Int64"
    )
    numbers_of_runs = dict.fromkeys(
        [*METRICS, *SHARES.values(), *TARGET_COLUMNS, "communication_share", "cpu_share"], "float64"
    )
    table = pd.DataFrame(rows).astype(integers | {"dropout": "boolean"} | numbers_of_runs)
    return with_machine_shares(table)


def _training(record: Mapping) -> dict:
    """Parameters, batch size, dropout and restarts of the optimizer; None for a command."""
    if not (network := record["network"]):
        return dict.fromkeys(("parameters", "batch_size", "dropout", "optimizer_restarts"))
    return {
        "parameters": network["parameters"],
        "batch_size": batch_size_of(record),
        "dropout": network["dropout"],
        "optimizer_restarts": record["settings"].get("optimizer_restarts", 0),
    }


def _status(record: Mapping) -> dict:
    """How the run ended, how often it was resumed from a checkpoint, and of how many attempts it is."""
    diverged = record["diverged"] or {"kind": None, "step": None}
    out_of_memory = record["out_of_memory"] or {"phase": None, "epoch": None, "message": None}
    return {
        "status": record["status"],
        "diverged_kind": diverged["kind"],
        "diverged_step": diverged["step"],
        "out_of_memory_phase": out_of_memory["phase"],
        "out_of_memory_epoch": out_of_memory["epoch"],
        "out_of_memory_message": out_of_memory["message"],
        "resumes": record["resumes"],
        "attempts": 1 + len(record["other_attempts"]),
    }


def _evaluation(entry: Mapping | None) -> dict:
    """Which trainer evaluated the weights, "" for none, whether its code has changed since, and what it replayed."""
    return {
        "evaluated_by": Trainer.parse(entry["trainer"]).name if entry else "",
        "evaluated_by_other_code": bool(entry and not entry["current_code"]),
        "audited_epoch": entry["audit"]["epoch"] if entry and entry["audit"] else None,
    }


def _measurements(record: Mapping) -> dict:
    """The values of METRICS and PHASE_METRICS, and the counts of the compilation cache."""
    return {
        "epochs_trained": record["result"]["epochs_trained"],
        **{
            name: decode_loss(reduce(getitem, path.split("."), cast(Any, record)))
            for name, (_, path) in COLUMNS.items()
        },
        "communication_share": communication_share(record),
        "cpu_share": cpu_share(record),
        "energy_reason": record["energy"]["reason"],
        **{f"phases.{phase}": record["phases_seconds"][phase] for phase in PHASES},
        "wall_seconds": record["wall_seconds"],
        **{name: (record["compilation_cache"] or {}).get(key) for name, key in CACHE_COUNTS.items()},
    }


def _machine(record: Mapping) -> dict:
    """Machine, software and code of the last process that trained the run, and the machines of all its processes."""
    provenance, environment = record["provenance"], record["provenance"]["environment"]
    scheduler = provenance["scheduler"] or {"name": None, "job_id": None}
    trainer = Run.of(record["run"]).trainer
    settings = [_settings(trainer, session["settings"]) for session in record["sessions"]]
    machines = [
        f"{_machine_of(session)}{of_session and f' with {of_session}'}"
        for session, of_session in zip(record["sessions"], settings, strict=True)
    ]
    gpu = provenance["gpu"] or {}
    reasons = (gpu.get("at_end") or {}).get("throttle_reasons") or []
    return {
        **{key: provenance[key] for key in ("host", "cpu_model", "threads", "python", "platform", "trainmark")},
        **{key: provenance[key] for key in ("git_commit", "git_clean", "started")},
        "cpus": number_ranges(record["sessions"][-1]["cpus"]),
        "held_cpus": len(record["sessions"][-1]["cpus"]),
        "device_name": provenance["device"]["name"] if provenance["device"] else None,
        "gpu": ", ".join(form.format(gpu[key]) for key, form in _GPU_FACTS.items() if gpu.get(key) is not None) or None,
        "gpu_throttled": ", ".join(one.replace("_", " ") for one in reasons if one.endswith(SLOWING)),
        "versions": format_versions(provenance["versions"]),
        "library_settings": settings[-1],
        "environment": " ".join(filter(None, (environment["kind"], environment.get("name")))),
        "scheduler": scheduler["name"],
        "job_id": scheduler["job_id"],
        "code_sha256": provenance["code"]["sha256"],
        "shared_code_sha256": provenance["code"]["shared"],
        "session_machines": " and ".join(dict.fromkeys(machines)),
        "machines": len(set(machines)),
    }


def _disturbance(record: Mapping) -> dict:
    """What disturbed the run; also its day, its calls of snakemake, its load and the digest of its packages."""
    causes = (record["disturbed"] or {"causes": []})["causes"]
    calls = [session["call"] or "by hand" for session in record["sessions"]]
    return {
        "disturbed": ", ".join(cause["cause"] for cause in causes),
        "disturbance": disturbance_in_words(record["disturbed"]),
        "calls": " and ".join(dict.fromkeys(calls)),
        "day": record["provenance"]["started"][:10],
        "load_1min": record["provenance"]["load_1min"],
        "packages_sha256": record["provenance"]["environment"]["packages_sha256"],
    }


def _settings(trainer: Trainer, settings: Mapping[str, str]) -> str:
    """What a user set of these settings, which a process had: "A=1, B=2"; "" for nothing."""
    return ", ".join("=".join(setting) for setting in settings_of_user(trainer, settings).items())


def _machine_of(session: Mapping) -> str:
    """The hardware of one process in words: its host, GPU and CPUs, which may differ between processes of one host."""
    count = len(session["cpus"])
    parts = (session["host"], session["gpu"], f"{count} CPU{'s' if count > 1 else ''} of {session['cpu_model']}")
    return ", ".join(filter(None, parts))


SLOWING = ("cap", "slowdown", "limit")
"""The ends of the reasons for which a GPU is slowed down, such as "sw_thermal_slowdown"; others are harmless."""

_GPU_FACTS = {
    "name": "{}",
    "driver_version": "driver {}",
    "cuda_version": "CUDA {}",
    "memory_mib": "{} MiB",
    "reason": "{}",
}
"""The properties of a GPU that do not change between runs, and their format; `reason` says why others are unknown."""


def summary_table(
    runs: pd.DataFrame,
    metrics: Iterable[str] = tuple(METRICS),
    statistics: Mapping[str, Callable[[list[float]], float]] = STATISTICS,
) -> pd.DataFrame:
    """Make the summary: one row per setting, with counts of runs and with the statistics of each metric.

    Censored runs (diverged or out of memory) are counted but do not enter medians. Of what a disturbance changes, those
    are of the `timed_runs`. Runs that waited for data are counted and do enter them. A value that no run has is NaN.
    """
    metrics = list(metrics)
    versions = {values: code_versions(group) for values, group in groups(runs, GROUP)}
    timed_numbers = timed_runs(runs[runs["status"] == "ok"])["number"]
    rows = []
    for values, group in groups(runs, SETTING):
        finished = group[group["status"] == "ok"]
        timed = finished[finished["number"].isin(timed_numbers)]
        row = dict(zip(SETTING, values, strict=True)) | {"runs": len(group)}
        row |= {status: int((group["status"] == status).sum()) for status in ("diverged", "out_of_memory")}
        row |= {cause: int((group[cause] != "").sum()) for cause in ("disturbed", "waited")}
        row["disturbed_times"] = bool((timed["disturbed"] != "").any())
        row["code_versions"] = versions[values[: len(GROUP)]]
        for metric in metrics:
            present = (finished if is_lasting(metric) else timed)[metric].dropna()
            for name, of_values in statistics.items():
                row[f"{metric}_{name}"] = float(of_values(present.tolist())) if len(present) else None
        row["run_numbers"] = " ".join(str(number) for number in sorted(group["number"]))
        rows.append(row)
    return pd.DataFrame(rows).astype({f"{metric}_median": "float64" for metric in metrics})


def with_names(table: pd.DataFrame) -> pd.DataFrame:
    """A table of runs or trainers with the name of its own for the framework of a command."""
    return table.assign(framework=table["framework"].where(table["framework"] != FRAMEWORK, table["recipe"]))


def timed_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs whose times enter medians: of each setting those that were not disturbed; all if every one was."""
    undisturbed = runs["disturbed"] == ""
    is_any = undisturbed.groupby([runs[key] for key in SETTING]).transform("any")
    return runs[undisturbed | ~is_any]


def are_disturbed(runs: pd.DataFrame) -> bool:
    """Whether the times of a setting of these runs are those of disturbed runs alone."""
    return bool((timed_runs(runs)["disturbed"] != "").any())


def groups(table: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield (values, rows) for each group of rows with equal values in these columns, in order of first appearance."""
    yield from table.groupby(columns, sort=False)


def by_trainer(table: pd.DataFrame) -> Iterator[tuple[Trainer, pd.DataFrame]]:
    """Yield (trainer, its rows), in order of first appearance."""
    for values, rows in groups(table, [*TRAINER]):
        yield Trainer(*values), rows


def longest_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the runs of each trainer of a group that have its largest number of epochs."""
    return runs[runs["epochs"] == runs.groupby([*GROUP, *TRAINER])["epochs"].transform("max")]


def read_table(path: Path, numbers: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a table from its CSV file. Names remain text, whatever they look like: "2024", "007", "nan".

    numbers: the columns in which an empty cell is missing (NaN); None: all columns.
    """
    missing = [""] if numbers is None else {column: [""] for column in numbers}
    return pd.read_csv(
        path, dtype=dict.fromkeys(GROUP, str) | Trainer.__annotations__, keep_default_na=False, na_values=missing
    )


def is_same_parquet(file: Path, other: Path) -> bool:
    """Whether two parquet files hold the same table, whichever version of pyarrow wrote them."""
    return pd.read_parquet(file).equals(pd.read_parquet(other))


def select_group(table: pd.DataFrame, values: Iterable[str]) -> pd.DataFrame:
    """Select the rows of one group. values: experiment, recipe and dataset, in the order of GROUP."""
    return table[(table[GROUP] == list(values)).all(axis=1)]


def shown_of_trainers(runs: pd.DataFrame) -> list[str]:
    """The columns of TRAINER that a reader needs: without the parts that are the usual ones in all runs."""
    return [key for key in TRAINER if {*runs[key]} != {Trainer._field_defaults.get(key)}]


def select_trainer(table: pd.DataFrame, trainer: Trainer) -> pd.DataFrame:
    """Select the rows of one trainer."""
    return table[(table[list(TRAINER)] == list(trainer)).all(axis=1)]


def rows_of(table: pd.DataFrame) -> list[dict]:
    """The rows of a table as dicts, with None instead of NaN for missing values."""
    plain = table.astype(object)
    return plain.where(table.notna(), None).to_dict("records")
