"""The plan: the file that lists the jobs of a workflow. The workflow writes it, and each job takes its own from it."""

import json
import platform
import re
import secrets
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainmark.errors import DataError, expect_damage
from trainmark.files.whole import write_text
from trainmark.plan.code_digests import refuse_other_code, run_code
from trainmark.plan.products import PLAN_FILE
from trainmark.plan.run import Run
from trainmark.recipes.own import planned_recipes, register
from trainmark.trainer import Trainer

PARTIAL_VARIABLE = "TRAINMARK_PARTIAL"
"""Environment variable of the call of snakemake that makes tables and report after a call in which jobs failed."""


def add_plan(parser: ArgumentParser) -> None:
    """Add the argument that names the plan."""
    parser.add_argument(
        "--plan",
        type=Path,
        default=Path(PLAN_FILE),
        help=f"the plan of the workflow, which says what each job does (default: {PLAN_FILE})",
    )


def write_plan(path: Path, plan: Mapping) -> None:
    """Write a plan (`jobs.make_plan`), with the time of this call and the secret that chooses audited runs.

    The time distinguishes the runs of this call from those of others. The secret stays the same from call to call.
    """
    secret = plan_if_there(path).get("secret")
    call = {
        "call": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "secret": secret if isinstance(secret, str) else secrets.token_hex(16),
    }
    write_text(path, json.dumps({**plan, **call}, indent=1) + "\n")


def read_plan(path: Path) -> dict[str, Any]:
    """Return the plan, and register the user's own recipes in it. Raises DataError if it is none of this version."""
    try:
        plan: dict[str, Any] = json.loads(path.read_text())
        if not isinstance(plan["records"], dict) or not isinstance(plan["jobs"], dict):
            raise TypeError
        register(planned_recipes(plan))
        return plan
    except FileNotFoundError as error:
        raise DataError(
            f"there is no plan {path} on {platform.node()}: snakemake writes it in the directory where it is started, "
            "unless it is called with --no-hooks, and its jobs need the same directory"
        ) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is not a plan of this version of trainmark: run snakemake, which writes it") from error


def refuse_other_folders(path: Path) -> None:
    """Raise DataError if the plan is of a version of trainmark that kept its runs in other folders."""
    plan = plan_if_there(path)
    if isinstance(order := plan.get("order"), list) and order and "records" not in plan:
        raise DataError(
            f"{path.parent} holds the runs of an earlier version of trainmark, whose paths have no keys; go on with "
            f"that version, or move the folder {path.parent} away"
        )


def plan_if_there(path: Path) -> dict:
    """Return the plan, or an empty dict if there is none."""
    try:
        plan = json.loads(path.read_text())
    except (OSError, ValueError):
        plan = {}
    return plan if isinstance(plan, dict) else {}


@dataclass(frozen=True)
class TrainerJob:
    """What the runs, the trace, the timed tuning and the cross-evaluation of a trainer in a group have in common.

    experiment, recipe, dataset: names. settings, inputs, code: as in a record.
    prepared, mean, packed, tuning, sources: files and folders that it reads; None if it reads none.
    """

    experiment: str
    recipe: str
    dataset: str
    trainer: Trainer
    settings: dict
    inputs: dict
    code: dict
    prepared: Path | None = None
    mean: Path | None = None
    packed: Path | None = None
    tuning: Path | None = None
    sources: Path | None = None

    @property
    def dataset_folder(self) -> Path:
        """The folder of the prepared dataset, which a command lacks."""
        assert self.prepared is not None, "a training has one"
        return self.prepared

    @property
    def group(self) -> str:
        """Its experiment, recipe and dataset, as the plan writes them."""
        return f"{self.experiment}/{self.recipe}/{self.dataset}"

    def check_code(self) -> None:
        """Raise DataError if its code was edited since the plan was made."""
        now = run_code(self.recipe, self.trainer)
        refuse_other_code(now, {key: self.code.get(key) for key in now})


def job_of(plan: Mapping, path: Path, of: str) -> TrainerJob:
    """Return the job of a trainer in a group. path: of the plan. of: see `run.of_trainer`.

    Raises DataError if the plan has none.
    """
    try:
        job = plan["jobs"][of]
    except KeyError as error:
        raise DataError(f"{path} has no job {of}; it has {', '.join(plan['jobs']) or 'none'}") from error
    experiment, recipe, dataset, trainer = of.split("/")
    first = {name: path.parent / files[0] for name, files in job["files"].items() if files}
    if "packed" in first:
        first["packed"] = first["packed"].parent
    names = (experiment, recipe, dataset, Trainer.parse(trainer))
    return TrainerJob(*names, job["settings"], job["inputs"], job["code"], **first)


def run_of(plan: Mapping, path: Path, run_id: str) -> tuple[Run, TrainerJob]:
    """Return a run by its id, and its job. Raises DataError if the plan has none."""
    of, _, numbers = run_id.partition("/epochs-")
    job = job_of(plan, path, of)
    if not (written := re.fullmatch("([0-9]+)/repeat-([0-9]+)", numbers)):
        raise DataError(f"found {run_id}; allowed: the id of a run, such as {of}/epochs-1/repeat-1")
    return Run(job.experiment, job.recipe, job.dataset, job.trainer, *map(int, written.groups())), job


def position_in_order(run: Run, plan: Mapping) -> dict | None:
    """Return the position of a run in the order of its workflow, as stored in the record; None if it is not in it."""
    ids = plan["order"]
    return {"position": ids.index(run.id) + 1, "of": len(ids)} if run.id in ids else None
