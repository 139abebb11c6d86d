"""The plan: the file that lists the runs of a workflow. The workflow writes it and its jobs read it."""

import json
import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Self

from trainmark.errors import DataError, expect_damage
from trainmark.files.whole import write_text
from trainmark.plan.run import RUN_FOLDER, Run
from trainmark.trainer import trainers_of

PARTIAL_VARIABLE = "TRAINMARK_PARTIAL"
"""Environment variable of the call of snakemake that makes tables and report after a call in which jobs failed."""

EPOCHS_OF_AN_AUDIT, MOST_AUDITS = 10, 2
"""Of so many epochs of a trainer one is audited, one at least, and so many at most. Two are of the first and the second
half of a run; more would take longer than the certificate."""

PLANNED_KEYS = ("experiments", "prepare", "datasets", "prices", "figures", "claims")
"""Keys of the config that the plan contains. The mirror is left out because its address may contain a secret key."""


def write_plan(
    path: Path,
    config: Mapping,
    runs: list[str],
    order: list[str],
    missing: Mapping[str, str] | None = None,
) -> None:
    """Write the plan.

    It also contains the time of this call of snakemake, which distinguishes its runs from those of other calls, and the
    secret that chooses the audited runs. The secret stays the same from call to call.

    config: the config with resolved devices.
    runs: ids of the runs in the tables and the report, in the order of the tables.
    order: ids of all runs, in the order of training.
    missing: the reason why a run has no record, by run id. Such a run is not in `runs`.
    """
    secret = plan_if_there(path).get("secret")
    document = {
        "config": {key: config[key] for key in PLANNED_KEYS},
        "runs": runs,
        "order": order,
        "missing": dict(missing or {}),
        "call": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "secret": secret if isinstance(secret, str) else secrets.token_hex(16),
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def read_plan(path: Path) -> dict:
    """Return the plan's "config", "runs", "order" and "missing". Raises DataError if the file is not a plan."""
    try:
        plan = json.loads(path.read_text())
        return {key: plan[key] for key in ("config", "runs", "order", "missing")}
    except FileNotFoundError as error:
        raise DataError(
            f"there is no plan {path} on {platform.node()}: snakemake writes it in the directory where it is started, "
            "and its jobs need the same directory"
        ) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is not a plan of this version of trainmark: run snakemake, which writes it") from error


def refuse_other_folders(path: Path) -> None:
    """Raise DataError if the plan is of a version of trainmark that kept its runs in other folders."""
    order = plan_if_there(path).get("order")
    if isinstance(order, list) and order and str(order[0]).count("/") != RUN_FOLDER.count("/"):
        raise DataError(
            f"{path.parent} holds the runs of another version of trainmark, in folders such as {order[0]}, where this "
            f"one has {RUN_FOLDER}; go on with that version, or move the folder {path.parent} away"
        )


def plan_if_there(path: Path | None) -> dict:
    """Return the plan, or an empty dict if there is none. A run can be trained without a plan."""
    try:
        plan = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        plan = {}
    return plan if isinstance(plan, dict) else {}


def experiment_of(experiment: str, plan: Mapping) -> dict:
    """Return the settings of an experiment, or an empty dict if the plan lacks it, as for a run started by hand."""
    section: Any = plan
    for key in ("config", "experiments", experiment):
        section = section.get(key) if isinstance(section, Mapping) else None
    return section or {}


@dataclass(frozen=True)
class PlannedRuns:
    """All runs of a trainer in a group: their number, and the number of epochs of all of them."""

    count: int
    epochs: int

    @property
    def audits(self) -> int:
        """The number of these runs of which an epoch is audited."""
        return min(self.count, MOST_AUDITS, max(1, self.epochs // EPOCHS_OF_AN_AUDIT))

    @classmethod
    def of(cls, experiment: Mapping) -> Self:
        """Those of an experiment, by its settings."""
        repeats, epochs = experiment["repeats"], experiment["epochs"]
        return cls(repeats * len(epochs), repeats * sum(epochs))


def writes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Return whether a run of an experiment writes its trained weights (key `keep_weights`).

    `needed` means that something reads them: `predict` (recipes on texts), or another trainer of the experiment, which
    evaluates them. A run started by hand always writes its weights.

    experiment: the settings of the experiment; empty for a run started by hand.
    on_texts: whether the recipe is on texts.
    """
    keep = experiment.get("keep_weights", True)
    if keep == "needed":
        return on_texts or len(trainers_of(experiment)) > 1
    return bool(keep)


def removes_weights(experiment: Mapping, on_texts: bool) -> bool:
    """Return whether the weights of an experiment's runs are removed once another trainer has evaluated them."""
    return experiment.get("keep_weights") == "needed" and not on_texts


def audited_epochs(run: Run, plan: Mapping) -> range:
    """Return the epochs of a run of which one is audited; none if the run isn't.

    The plan's secret chooses the audited runs among those with most epochs: the same repeats for all trainers of a
    group, so that paired runs are timed alike. Two audits are of different halves, so that one is of the last epochs.
    """
    if not (experiment := experiment_of(run.experiment, plan)):
        return range(0)
    runs = list(product(experiment["epochs"], range(1, experiment["repeats"] + 1)))
    group = f"{plan.get('secret')} {run.experiment}/{run.recipe}/{run.dataset}"
    runs.sort(key=lambda one: (-one[0], sha256(f"{group} {one}".encode()).digest()))
    audits = PlannedRuns.of(experiment).audits
    if (run.epochs, run.repeat) not in runs[:audits]:
        return range(0)
    parts = min(audits, run.epochs)
    part = runs.index((run.epochs, run.repeat)) % parts
    return range(run.epochs * part // parts + 1, run.epochs * (part + 1) // parts + 1)


def position_in_order(run: Run, plan: Mapping) -> dict | None:
    """Return the position of a run in the order of its workflow, as stored in the record; None if no plan lists it."""
    ids = plan.get("order")
    return {"position": ids.index(run.id) + 1, "of": len(ids)} if isinstance(ids, list) and run.id in ids else None
