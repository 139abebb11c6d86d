"""The plan: the file in which a workflow says what it is going to do, and which its jobs read."""

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainmark.errors import DataError
from trainmark.files.whole import write_text
from trainmark.plan.run import Run

PARTIAL_VARIABLE = "TRAINMARK_PARTIAL"
"""Environment variable of a call of snakemake that makes tables and report of the runs that a failed call left."""

PLANNED_KEYS = ("experiments", "prepare", "datasets")
"""Keys of the config that stand in the plan. The mirror does not: its address may hold a key."""


def write_plan(
    path: Path,
    config: Mapping,
    runs: list[str],
    order: list[str],
    attempts: Mapping[str, int] | None = None,
    missing: Mapping[str, str] | None = None,
) -> None:
    """Write the plan, with the time of this call of snakemake, which tells its runs from those of another call.

    config: with its devices named.
    runs: ids of the runs that tables and report are made of, in the order of the tables.
    order: ids of all runs, as they are trained.
    attempts: see reruns.py.
    missing: why a run has no record, by its id; such a run is not among `runs`.
    """
    document = {
        "config": {key: config[key] for key in PLANNED_KEYS},
        "runs": runs,
        "order": order,
        "attempts": dict(attempts or {}),
        "missing": dict(missing or {}),
        "call": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def read_plan(path: Path) -> dict:
    """The plan: "config", "runs", "order" and "missing". Raises DataError if the file holds no plan."""
    try:
        plan = json.loads(path.read_text())
        return {key: plan[key] for key in ("config", "runs", "order", "missing")}
    except FileNotFoundError as error:
        raise DataError(
            f"there is no plan {path} on {platform.node()}: snakemake writes it in the directory where it is started, "
            "and its jobs need the same directory"
        ) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} is not a plan of this version of trainmark: run snakemake, which writes it") from error


def plan_if_there(path: Path | None) -> dict:
    """The plan as a run reads it; empty where there is none: nothing in it is needed to train a run."""
    try:
        plan = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        plan = {}
    return plan if isinstance(plan, dict) else {}


def experiment_of(experiment: str, plan: Mapping) -> dict:
    """The settings of an experiment; none where no plan names it, as for a run that somebody starts by hand."""
    found: Any = plan
    for key in ("config", "experiments", experiment):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found or {}


def writes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Whether a run of an experiment writes its trained weights (key `keep_weights`); by hand it does.

    `needed` means that somebody reads them: `predict`, those of recipes on texts, or another trainer of the experiment,
    which evaluates them. on_texts: whether the recipe is on texts.
    """
    keep = experiment.get("keep_weights", True)
    if keep == "needed":
        return on_texts or len(experiment["frameworks"]) * len(experiment["devices"]) > 1
    return bool(keep)


def removes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Whether the trainer that evaluates the weights of an experiment's runs then removes them."""
    return experiment.get("keep_weights") == "needed" and not on_texts


def position_in_order(run: Run, plan: Mapping) -> dict | None:
    """Where a run stands in the order of its workflow, as the record keeps it; None where no plan lists it."""
    ids = plan.get("order")
    return {"position": ids.index(run.id) + 1, "of": len(ids)} if isinstance(ids, list) and run.id in ids else None
