"""From records to tables: one row a run, one a run and epoch, one a setting."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trainmark.errors import RecordError
from trainmark.machine.disturbance import cause_in_words
from trainmark.plan.run import RUN_FOLDER, trainer_name
from trainmark.records.record import PHASES, decode_loss, read_record
from trainmark.tables.formatting import format_versions, number_ranges, statuses_of, why_absent
from trainmark.tables.mixed_environments import code_versions
from trainmark.tables.statistics import median_and_range

GROUP = ["experiment", "recipe", "dataset"]
"""What a section of the report, and a figure, is about."""

SETTING = [*GROUP, "framework", "device", "epochs"]
"""What runs have in common that differ in their repeat alone."""

COLUMNS = {
    "training_seconds": ("training, s", "result.training_seconds"),
    "first_step_seconds": ("first step, s", "result.first_step_seconds"),
    "steady_epoch_seconds": ("steady epoch, s", "result.steady_epoch_seconds"),
    "samples_per_second": ("samples/s", "result.samples_per_second"),
    "test_loss": ("test loss", "result.test_loss"),
    "test_accuracy": ("test accuracy", "result.test_accuracy"),
    "train_loss": ("train loss", "result.train_loss"),
    "train_accuracy": ("train accuracy", "result.train_accuracy"),
    "peak_host_mib": ("peak memory, MiB", "memory.peak_host_mib"),
    "peak_device_mib": ("peak GPU memory, MiB", "memory.peak_device_mib"),
    "training_joules": ("energy of training, J", "energy.training_joules"),
}
"""The columns of the summary: what is summed up over repeats, by name: its heading, and its place in a record."""

METRICS = {name: heading for name, (heading, _) in COLUMNS.items()}

PHASE_METRICS = {f"phases.{phase}": phase.replace("_", " ") for phase in PHASES} | {"wall_seconds": "wall time"}
"""Where a run's wall time went, in seconds, with their heading."""

CURVE_FIGURES = ["seconds", "batch_loss", "test_loss", "test_accuracy", "train_loss", "train_accuracy"]


def read_records(runs_folder: Path, run_ids: Iterable[str]) -> dict[str, dict]:
    """The records of these runs, by the path they were read from, in the order given.

    Raises RecordError where one can't be read, or is of another run than its path says.
    """
    paths = {run_id: runs_folder / run_id / "record.json" for run_id in run_ids}
    return {str(path): _record_of(run_id, path) for run_id, path in paths.items()}


def _record_of(run_id: str, path: Path) -> dict:
    record = read_record(path)
    run = record["run"]
    if run["id"] != run_id or RUN_FOLDER.format_map(run) != run_id:
        raise RecordError(
            f"{path} is the record of another run, {RUN_FOLDER.format_map(run)}: it was copied or moved; delete it, "
            "and snakemake trains the run again"
        )
    return record


def runs_table(records: dict[str, dict], order: Sequence[str], evaluations: Iterable[Mapping] = ()) -> pd.DataFrame:
    """One row a run: its place in the matrix, settings, figures, and the record that they stand in, with its hash.

    order: the ids in the order in which the runs are trained; a run's number is its place in it, from 1. Rows keep the
    order of `records`. "record" is a path from the results folder. evaluations: cross-evaluations of the runs' weights.
    """
    evaluated = {run_id: entry for evaluation in evaluations for run_id, entry in evaluation["runs"].items()}
    numbers = {run_id: number for number, run_id in enumerate(order, start=1)}
    rows = [
        {
            "number": numbers[record["run"]["id"]],
            **record["run"],
            **_outcome(record),
            **_figures(record),
            **{key: record["settings"][key] for key in ("parameters", "batch_size", "seed", "dropout")},
            **_machine(record),
            **_disturbance(record),
            **_evaluation(evaluated.get(record["run"]["id"])),
            "samples": json.dumps(record["samples"]),
            "record": f"runs/{record['run']['id']}/record.json",
            "record_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        }
        for path, record in records.items()
    ]
    whole = dict.fromkeys(["diverged_step", "out_of_memory_epoch"], "Int64")
    return pd.DataFrame(rows).astype(whole | dict.fromkeys(METRICS, "float64"))


def _outcome(record: Mapping) -> dict:
    """How the run ended, and how often it went on from a checkpoint."""
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
    }


def _evaluation(entry: Mapping | None) -> dict:
    """Which trainer evaluated the run's weights, "" for none, and whether its code has changed since."""
    return {
        "evaluated_by": trainer_name(entry["framework"], entry["device"]) if entry else "",
        "evaluated_by_other_code": bool(entry and not entry["current_code"]),
    }


def _figures(record: Mapping) -> dict:
    """What METRICS and PHASE_METRICS name."""
    return {
        "epochs_trained": record["result"]["epochs_trained"],
        **{name: decode_loss(_value_at(record, place)) for name, (_, place) in COLUMNS.items()},
        "energy_reason": record["energy"]["reason"],
        **{f"phases.{phase}": record["phases_seconds"][phase] for phase in PHASES},
        "wall_seconds": record["wall_seconds"],
    }


def _value_at(record: Mapping, place: str) -> Any:
    for key in place.split("."):
        record = record[key]
    return record


def _machine(record: Mapping) -> dict:
    """Where, with what and by which code the last process of the run trained; and on what the earlier ones did."""
    provenance, environment = record["provenance"], record["provenance"]["environment"]
    scheduler = provenance["scheduler"] or {"name": None, "job_id": None}
    # What a session says of its machine: two on one host may have had two GPUs.
    machines = [_machine_of(session) for session in record["sessions"]]
    return {
        **{key: provenance[key] for key in ("host", "cpu_model", "threads", "python", "platform", "trainmark")},
        **{key: provenance[key] for key in ("git_commit", "git_clean", "started")},
        "cpus": number_ranges(provenance["cpus"]),
        "device_name": provenance["device"]["name"] if provenance["device"] else None,
        "gpu": _gpu(provenance["gpu"] or {}),
        "versions": format_versions(provenance["versions"]),
        "environment": " ".join(filter(None, (environment["kind"], environment.get("name")))),
        "scheduler": scheduler["name"],
        "job_id": scheduler["job_id"],
        "code_sha256": provenance["code"]["sha256"],
        "code_modules": json.dumps(provenance["code"]["modules"], sort_keys=True),
        "session_machines": " and ".join(dict.fromkeys(machines)),
        "machines": len(set(machines)),
    }


def _disturbance(record: Mapping) -> dict:
    """What disturbed the run; when, in which calls of snakemake and under which load it was trained."""
    causes = (record["disturbed"] or {"causes": []})["causes"]
    calls = [session["call"] or "by hand" for session in record["sessions"]]
    return {
        "disturbed": ", ".join(cause["cause"] for cause in causes),
        "disturbance": " and ".join(cause_in_words(cause) for cause in causes),
        "calls": " and ".join(dict.fromkeys(calls)),
        "day": record["provenance"]["started"][:10],
        "load_1min": record["provenance"]["load_1min"],
        "packages_sha256": record["provenance"]["environment"]["packages_sha256"],
    }


def _machine_of(session: Mapping) -> str:
    """What a process was timed on, in words: two of one host may have had two GPUs, or more CPUs."""
    count = len(session["cpus"])
    parts = (session["host"], session["gpu"], f"{count} CPU{'s' if count > 1 else ''} of {session['cpu_model']}")
    return ", ".join(filter(None, parts))


_GPU_FACTS = {
    "name": "{}",
    "driver_version": "driver {}",
    "cuda_version": "CUDA {}",
    "memory_mib": "{} MiB",
    "reason": "{}",
}
"""What stays the same of a GPU between runs, and how it is written; `reason` says why nothing else is told."""


def _gpu(facts: Mapping) -> str | None:
    """A GPU in words, as far as it tells about itself; None for a CPU run."""
    return ", ".join(form.format(facts[key]) for key, form in _GPU_FACTS.items() if facts.get(key) is not None) or None


def curves_table(records: dict[str, dict]) -> pd.DataFrame:
    """One row a run and epoch: warm-up or steady, seconds of training, losses and accuracies."""
    rows = []
    for record in records.values():
        for entry in record["curves"]:
            row = {"id": record["run"]["id"], **{key: entry[key] for key in ("epoch", "part", "seconds")}}
            row["batch_loss"] = decode_loss(entry["batch_loss"])
            for split, figures in entry["evaluations"].items():
                row[f"{split}_loss"] = decode_loss(figures["loss"])
                row[f"{split}_accuracy"] = figures["accuracy"]
            rows.append(row)
    table = pd.DataFrame(rows, columns=["id", "epoch", "part", *CURVE_FIGURES])
    return table.astype({"id": "str", "part": "str", "epoch": "int64", **dict.fromkeys(CURVE_FIGURES, "float64")})


def summary_table(runs: pd.DataFrame, metrics: Iterable[str] = tuple(METRICS)) -> pd.DataFrame:
    """One row a setting: how many runs, how many of them censored, and median, min and max of each metric of the rest.

    Censored is a run that diverged or ran out of memory. A disturbed run is counted, and enters the figures all the
    same. `code_versions` counts the versions of the code that trained the row's whole section (GROUP); `run_numbers`
    names the rows of `runs` that the figures come from. A figure that no run has is NaN; `csv_text` says why.
    """
    metrics = list(metrics)
    versions = {values: code_versions(group) for values, group in groups(runs, GROUP)}
    rows = []
    for values, group in groups(runs, SETTING):
        finished = group[group["status"] == "ok"]
        row = dict(zip(SETTING, values, strict=True)) | {"runs": len(group)}
        row |= {status: int((group["status"] == status).sum()) for status in ("diverged", "out_of_memory")}
        row["disturbed"] = int((group["disturbed"] != "").sum())
        row["code_versions"] = versions[values[: len(GROUP)]]
        for metric in metrics:
            present = finished[metric].dropna()
            figures = median_and_range(present.tolist()) if len(present) else (None, None, None)
            row |= {f"{metric}_{name}": figure for name, figure in zip(("median", "min", "max"), figures, strict=True)}
        row["run_numbers"] = " ".join(str(number) for number in sorted(group["number"]))
        rows.append(row)
    return pd.DataFrame(rows).astype({f"{metric}_median": "float64" for metric in metrics})


def groups(table: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """(values, rows) of each group of rows that are equal in these columns, in the order of their first rows."""
    yield from table.groupby(columns, sort=False)


def of_group(table: pd.DataFrame, values: Iterable[str]) -> pd.DataFrame:
    """The rows of one experiment, recipe and dataset: `values`, in the order of GROUP."""
    return table[(table[GROUP] == list(values)).all(axis=1)]


def rows_of(table: pd.DataFrame) -> list[dict]:
    """The rows of a table as dicts, with None, and no NaN, for what is not there."""
    plain = table.astype(object)
    return plain.where(table.notna(), None).to_dict("records")


def csv_text(summary: pd.DataFrame) -> str:
    """The summary as CSV, with a word in each cell that has no figure."""
    rows = [
        {key: why_absent(statuses_of(row)) if pd.isna(value) else value for key, value in row.items()}
        for row in summary.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=summary.columns).to_csv(index=False)
