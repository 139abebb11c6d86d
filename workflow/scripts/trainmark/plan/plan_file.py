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

WORKFLOW_VARIABLE = "TRAINMARK_WORKFLOW_PID"
"""Environment variable in which a workflow leaves the id of its process to its jobs."""

PLANNED_KEYS = ("experiments", "prepare", "datasets")
"""Keys of the config that stand in the plan. The mirror does not: its address may hold a key."""


def write_plan(
    path: Path, config: Mapping, runs: list[str], order: list[str], attempts: Mapping[str, int] | None = None
) -> None:
    """Write the plan. config: with its devices named. runs: ids, in the order of the tables; order: as trained.

    attempts: see reruns.py. call: the time, which tells the runs of one call of snakemake from those of another.
    """
    document = {
        "config": {key: config[key] for key in PLANNED_KEYS},
        "runs": runs,
        "order": order,
        "attempts": dict(attempts or {}),
        "call": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def read_plan(path: Path) -> dict:
    """The plan: "config", "runs" and "order". Raises DataError where the file holds none."""
    try:
        plan = json.loads(path.read_text())
        return {key: plan[key] for key in ("config", "runs", "order")}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{path} holds no plan on {platform.node()} ({type(error).__name__}: {error}): snakemake writes it where "
            "it is started, and jobs need the same directory"
        ) from error


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


def place_in_order(run: Run, plan: Mapping) -> dict | None:
    """Where a run stands in the order of its workflow, as the record keeps it; None where no plan lists it."""
    ids = plan.get("order")
    return {"place": ids.index(run.id) + 1, "of": len(ids)} if isinstance(ids, list) and run.id in ids else None
