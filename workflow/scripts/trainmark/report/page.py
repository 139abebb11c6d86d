"""The report: one HTML file that holds everything it shows, and works offline.

Every figure in a table carries the numbers of the runs it comes from (data-runs), the name of the figure
(data-field), how it was made of them (data-statistic) and its full value (data-value); every run names its record.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import jinja2

from trainmark.datasets.prepared import read_manifest
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

TEMPLATES = Path(__file__).parent

RUN_FIGURES = (
    "training_seconds",
    "first_step_seconds",
    "steady_epoch_seconds",
    "test_loss",
    "test_accuracy",
    "wall_seconds",
)
"""What the list of runs shows of each."""


def render(results: Results, plan: Mapping) -> str:
    """The whole page. plan: see `plan_file.read_plan`.

    Raises RecordError where a record of a run can't be read, DataError where a dataset's manifest can't.
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
        datasets=[_dataset(datasets_folder / name) for name in dict.fromkeys([*runs["dataset"], *config["prepare"]])],
        machines=machines(runs),
        calls=runs["calls"].nunique(),
        config=json.dumps(config, indent=2),
    )


def _run(run: dict) -> dict:
    """A run of the list of runs."""
    cells = [run_cell(run, field) for field in RUN_FIGURES]
    return run | {"cells": cells, "resumes": run_cell(run, "resumes"), "elsewhere": resumed_elsewhere(run)}


def _dataset(folder: Path) -> dict:
    """A dataset's manifest, with its mean picture where it has one (texts have none)."""
    manifest = read_manifest(folder / "prepared")
    picture = folder / "mean.png"
    encoded = None if manifest["kind"] == "tokens" else base64.b64encode(picture.read_bytes()).decode()
    return {"unreadable": [], **manifest, "mean_picture": encoded}
