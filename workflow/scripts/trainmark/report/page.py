"""The report: one self-contained HTML file that works offline, and results/summary.json, its first screen for machines.

Every number in a table has attributes with the runs that it comes from (data-runs), its name (data-field), how it was
computed from them (data-statistic) and its full value (data-value). A cell without data-runs has that of its row. In
the list of runs, the heading of a column has its data-field, and the table its data-statistic.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import jinja2
import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.recipes.command import DATASET
from trainmark.report.cells import run_cell
from trainmark.report.first_screen import FirstScreen, first_screen, summary_json
from trainmark.report.machines import machines
from trainmark.report.methods import methods
from trainmark.report.networks import models
from trainmark.report.sections import sections
from trainmark.report.standings import OF_VARIANTS
from trainmark.report.warnings import UNCERTIFIED
from trainmark.tables.comparability import WITHHELD
from trainmark.tables.formatting import DISTURBED_NOTE, status_counts
from trainmark.tables.mixed_environments import resumed_elsewhere
from trainmark.tables.results import Results
from trainmark.tables.tables import METRICS, PHASE_METRICS, rows_of, shown_of_trainers, with_names
from trainmark.tables.verdicts import certified_count
from trainmark.tables.waiting import WAITING_LIMIT
from trainmark.trainer import Trainer
from trainmark.variant import collapsed

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


def render(results: Results, plan: Mapping) -> tuple[str, str]:
    """Render the report: (index.html, summary.json).

    plan: see `plan_file.read_plan`.

    Raises RecordError if a record can't be read, and DataError if a dataset's manifest can't be read.
    """
    screen = first_screen(results, plan)
    values = _values(results, plan, screen)
    return templates().get_template("page.html.j2").render(values), summary_json(screen, values["methods"])


def templates() -> jinja2.Environment:
    """The templates of the report, with two filters: the trainer's name of a run or a row; the anchor of a warning."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["trainer"] = lambda row: Trainer.of(row).name
    environment.filters["anchor"] = _warning_anchor
    environment.globals |= {"of_variants": OF_VARIANTS, "disturbed_note": DISTURBED_NOTE}
    return environment


def _values(results: Results, plan: Mapping, screen: FirstScreen) -> dict:
    """The values for the template of the page."""
    config, runs = plan["config"], results.runs
    networks = models(runs, results.folder, plan)
    shown = list(sections(results, config, networks, screen.standings))
    trainer_keys = shown_of_trainers(runs)
    headings = METRICS | {"wall_seconds": "wall time, s"}
    names = dict.fromkeys([*runs["dataset"][runs["dataset"] != DATASET], *config["prepare"]])
    datasets = [_dataset(results.folder / plan["datasets"][name]["folder"]) for name in names]
    return {
        "screen": screen,
        "claims": rows_of(results.claims),
        "trust_links": _trust_links(screen, shown),
        "overview": _overview(shown),
        "runs": [_run(run) for run in rows_of(with_names(runs.sort_values("number")))],
        "run_headings": {field: headings[field] for field in RUN_FIGURES},
        "trainer_keys": trainer_keys,
        "setting_keys": [*trainer_keys, "epochs"],
        "phase_headings": list(PHASE_METRICS.values()),
        "sections": shown,
        "models": list(dict.fromkeys(networks.values())),
        "datasets": datasets,
        "machines": machines(with_names(runs)),
        "calls": runs["calls"].nunique(),
        "waiting_limit": f"{WAITING_LIMIT:.0%}".replace("%", " %"),
        "methods": methods(runs, shown, datasets, results.claims),
        "commits": _commits(runs),
        "config": config_to_reproduce(config),
    }


def config_to_reproduce(config: Mapping) -> str:
    """The text of a config file with the experiments of a plan's config."""
    written = {**config, "experiments": collapsed(config["experiments"])}
    return json.dumps({key: value for key, value in written.items() if value}, indent=2)


def _warning_anchor(kind: str) -> str:
    return f"warning-{kind.replace(' ', '-')}"


def _trust_links(screen: FirstScreen, sections: list[dict]) -> dict[str, str]:
    """Where each count below the title leads: to its warning; without one, to the parity of a section, or the runs."""
    parity = next((f"{one['anchor']}-parity" for one in sections if one["certificate"]), "runs")
    anchors = {one["kind"]: "runs" for one in screen.trust} | {UNCERTIFIED: parity}
    return anchors | {one.kind: _warning_anchor(one.kind) for one in screen.warnings}


def _overview(sections: list[dict]) -> list[dict]:
    """The rows of the overview of several sections: of each its fastest trainer but for the baseline."""
    rows = []
    for section in (one for one in sections if not one["variants"]):
        standing = next(iter(section["standings"]), None)
        pairs = section["parity"]
        others = [place for place in standing.places if place.row is not None] if standing else []
        best = next((place for place in others if place.is_ranked), None)
        why = "a command is not ranked" if section["is_command"] else "nothing to compare"
        rows.append({
            "anchor": section["anchor"],
            "title": f"{section['experiment']}: {section['title']}",
            "best": best,
            "baseline": standing.baseline if standing else "",
            "why": f"no verdict: {others[0].word.removeprefix(WITHHELD)}" if others else why,
            "certified": f"{certified_count(pairs)} of {len(pairs)}" if len(pairs) else "no pair",
            "runs": status_counts(section["statuses"]),
        })  # fmt: skip
    return rows


def _run(run: dict) -> dict:
    """A run with its log and the (value, text) of its cells, for the list of runs."""
    rule = "run_command" if run["dataset"] == DATASET else "train"
    return run | {
        "cells": [(cell.value, cell.text) for cell in (run_cell(run, field) for field in RUN_FIGURES)],
        "log": f"logs/{rule}/{run['record'].removeprefix('runs/').removesuffix('/record.json')}.log",
        "elsewhere": resumed_elsewhere(run),
    }


def _commits(runs: pd.DataFrame) -> list[tuple]:
    """(version of trainmark, commit, whether it was clean) of the runs, that of most runs first."""
    columns = ["trainmark", "git_commit", "git_clean"]
    counts = runs[columns].astype(object).where(runs[columns].notna(), None).value_counts(dropna=False)
    return [tuple(None if pd.isna(value) else value for value in values) for values in counts.index]


def _dataset(folder: Path) -> dict:
    """A dataset's manifest, with its mean image as base64 if it has one (texts have none)."""
    manifest = read_manifest(folder / "prepared")
    picture = folder / "mean.png"
    encoded = None if manifest["kind"] == "tokens" else base64.b64encode(picture.read_bytes()).decode()
    return {"unreadable": [], "passed_over": 0, **manifest, "mean_picture": encoded}
