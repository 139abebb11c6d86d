"""The report: one self-contained HTML file that works offline.

Every number in a table has attributes with the runs that it comes from (data-runs), its name (data-field), how it was
computed from them (data-statistic) and its full value (data-value). Every run in the list of runs links to its record.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import jinja2
import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.recipes.command import FRAMEWORK
from trainmark.report.cells import run_cell
from trainmark.report.machines import machines
from trainmark.report.network_picture.layout import LINE_HEIGHT
from trainmark.report.networks import models
from trainmark.report.sections import sections
from trainmark.tables.formatting import status_counts
from trainmark.tables.missing import missing_lines
from trainmark.tables.mixed_environments import resumed_elsewhere
from trainmark.tables.results import Results
from trainmark.tables.tables import GROUP, METRICS, PHASE_METRICS, SETTING, rows_of
from trainmark.tables.waiting import WAITING_LIMIT

TEMPLATES = Path(__file__).parent

RUN_FIGURES = (
    "training_seconds",
    "first_step_seconds",
    "steady_epoch_seconds",
    "test_loss",
    "test_accuracy",
    "wall_seconds",
)
"""The columns of the list of runs."""


def render(results: Results, plan: Mapping) -> str:
    """Render the report as HTML.

    plan: see `plan_file.read_plan`.

    Raises RecordError if a record can't be read, and DataError if a dataset's manifest can't be read.
    """
    config = plan["config"]
    runs, datasets_folder = results.runs, results.folder / "datasets"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    networks = models(runs, results.folder)
    headings = METRICS | {"wall_seconds": "wall time, s"}
    return environment.get_template("page.html.j2").render(
        missing=missing_lines(plan),
        runs=[_run(run) for run in rows_of(runs.sort_values("number"))],
        run_headings=[headings[field] for field in RUN_FIGURES],
        counts=status_counts(runs["status"]),
        setting_keys=[key for key in SETTING if key not in GROUP],
        phase_headings=list(PHASE_METRICS.values()),
        sections=list(sections(results, config, networks)),
        models=list(dict.fromkeys(networks.values())),
        line_height=LINE_HEIGHT,
        datasets=[_dataset(datasets_folder / name) for name in _datasets(runs, config)],
        machines=machines(runs),
        calls=runs["calls"].nunique(),
        waiting_limit=f"{WAITING_LIMIT:.0%}".replace("%", " %"),
        config=json.dumps(config, indent=2),
    )


def _datasets(runs: pd.DataFrame, config: Mapping) -> list[str]:
    trained_on = runs["dataset"][runs["framework"] != FRAMEWORK]
    return list(dict.fromkeys([*trained_on, *config["prepare"]]))


def _run(run: dict) -> dict:
    """A run with its cells, for the list of runs."""
    cells = [run_cell(run, field) for field in RUN_FIGURES]
    return run | {"cells": cells, "resumes": run_cell(run, "resumes"), "elsewhere": resumed_elsewhere(run)}


def _dataset(folder: Path) -> dict:
    """A dataset's manifest, with its mean image as base64 if it has one (texts have none)."""
    manifest = read_manifest(folder / "prepared")
    picture = folder / "mean.png"
    encoded = None if manifest["kind"] == "tokens" else base64.b64encode(picture.read_bytes()).decode()
    return {"unreadable": [], **manifest, "mean_picture": encoded}
