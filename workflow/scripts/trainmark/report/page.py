"""The report: one self-contained HTML file that works offline, and results/summary.json, its first screen for machines.

Every number in a table has attributes with the runs that it comes from (data-runs), its name (data-field), how it was
computed from them (data-statistic) and its full value (data-value). A cell without data-runs has that of its row. In
the list of runs, the heading of a column has its data-field, and the table its data-statistic.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.frameworks.registry import known_frameworks
from trainmark.plan.figures import NOTHING_TO_SHOW, known_figures
from trainmark.recipes.command import DATASET
from trainmark.report.first_screen import first_screen, summary_json
from trainmark.report.methods import methods
from trainmark.report.networks import Model, models, settings_of
from trainmark.report.standings import Place, Standing
from trainmark.report.tables import comparisons_table, tables, too_few
from trainmark.report.templates import templates
from trainmark.report.warnings import section_remarks
from trainmark.tables.bounds import DELAY
from trainmark.tables.comparability import WAITING_LIMIT
from trainmark.tables.formatting import format_figure, why_absent
from trainmark.tables.frames import rows_of, shown_of_trainers, with_names
from trainmark.tables.metrics import KNOWN
from trainmark.tables.remarks import TRAIN_AGAIN, disturbances, resumed_elsewhere
from trainmark.tables.sections import Results
from trainmark.tables.verdicts import not_ranked
from trainmark.trainer import TRAINER
from trainmark.variant import collapsed, levels_of, split_name

FIGURES = (
    "speed_up", "training_time", "time_to_accuracy", "break_even", "accuracy", "loss", "energy", "tuning", "parity",
    "phases",
)  # fmt: skip
"""The order of the figures on the page. Others follow."""

RUN_FIGURES = (
    "training_seconds", "first_step_seconds", "steady_epoch_seconds", "test_loss", "test_accuracy", "wall_seconds",
)  # fmt: skip
"""The columns of the list of runs."""

CODE = ["trainmark", "git_commit", "git_clean"]

OF_MACHINE = [
    *TRAINER, "host", "cpu_model", "gpu", "threads", "versions", "library_settings", "environment", "python",
    "platform", *CODE, "code_sha256",
]  # fmt: skip
"""Columns whose values are equal for all runs of one row of the table of machines."""


def render(results: Results) -> tuple[str, str]:
    """Render the report: (index.html, summary.json).

    Raises RecordError if a record can't be read, and DataError if a dataset's manifest can't be read.
    """
    screen, plan = first_screen(results), results.plan
    config, networks = plan["config"], models(results.runs, results.folder, plan)
    shown, runs = list(_sections(results, networks, screen.standings)), with_names(results.runs)
    names = dict.fromkeys([*results.runs["dataset"][results.runs["dataset"] != DATASET], *config["prepare"]])
    datasets = [_dataset(results.folder / plan["datasets"][name]["folder"]) for name in names]
    prose, rows = methods(shown, datasets, results.claims), rows_of(runs.sort_values("number"))
    values = {
        "screen": screen,
        "claims": results.claims,
        "runs": [_run(run) for run in rows],
        "run_headings": {field: KNOWN[field].heading for field in RUN_FIGURES},
        "trainer_keys": shown_of_trainers(results.runs),
        "sections": shown,
        "models": list(dict.fromkeys(networks.values())),
        "datasets": datasets,
        "machines": machines(runs),
        "calls": runs["calls"].nunique(),
        "delay": DELAY,
        "waiting_limit": f"{100 * WAITING_LIMIT:.0f} %",
        "methods": prose,
        "commits": [one for one, _ in Counter(tuple(run[column] for column in CODE) for run in rows).most_common()],
        "config": config_to_reproduce(plan, "plan.json"),
        "set_up": _set_up(results.runs["framework"].unique()),
        "own": [recipe["values"]["name"] for recipe in plan.get("recipes", ())],
    }
    return templates(autoescape=True).get_template("page.html.j2").render(values), summary_json(screen, prose)


def config_to_reproduce(plan: Mapping, plan_file: str) -> str:
    """The text of a config file with the experiments of a plan. plan_file: its place, for the user's own networks."""
    written = {**plan["config"], "experiments": collapsed(plan["config"]["experiments"])}
    written["networks"] = [plan_file] if plan.get("recipes") else []
    return json.dumps({key: value for key, value in written.items() if value}, indent=2)


def _set_up(frameworks: Iterable[str]) -> list[str]:
    """The commands that install these frameworks."""
    commands = {known.set_up for name in frameworks if (known := known_frameworks().get(name))}
    return ["make .venv/.installed", *sorted(commands - {"make"})]


def _sections(results: Results, models: Mapping[tuple[str, ...], Model], standings: list[Standing]) -> Iterator[dict]:
    """Yield the values for the template of each section, in the order of the config. models: from `networks.models`."""
    config, columns = results.plan["config"], shown_of_trainers(results.runs)
    named = [(name, one["description"]) for name, one in config["experiments"].items()]
    descriptions = {split_name(name)[0]: text for name, text in named} | dict(named)
    for place, section in enumerate(results.sections, start=1):
        runs, own = section.runs, [one for one in standings if one.section is section]
        certificate = results.plan["certificates"].get("/".join(section.group), {}).get("file", "")
        yield {
            "anchor": f"section-{place}",
            "of": section,
            "experiment": section.group[0],
            "title": section.title,
            "name": f"{section.group[0]}: {section.title}",
            "standings": own,
            "variants": _variants(own) if section.has_variants else {},
            "is_grid": section.has_variants and runs["variant"].map(levels_of).any(),
            "description": descriptions[section.group[0]],
            "remarks": [
                *(f"Not ranked: {line}." for line in not_ranked(section.parity)),
                *section_remarks(section),
                *(f"{one} {TRAIN_AGAIN}" for one in disturbances(runs)),
            ],
            "comparisons": comparisons_table(section.named),
            "too_few": too_few(section),
            "figures": list(_figures(results.folder.joinpath("figures", *section.group))),
            "tables": tables(section.named, columns, certificate),
            "settings": settings_of(section, models, results.folder),
        }


def _variants(standings: list[Standing]) -> dict[str, list[Place]]:
    """The place of each variant by each metric, those of a trainer by their training time."""
    places: dict[str, list[Place]] = {}
    for standing in standings:
        for place in standing.places:
            places.setdefault(place.trainer, []).append(place)
    return places


def _figures(folder: Path) -> Iterator[dict]:
    """Yield the figures of a section that have something to show. folder: where they are."""
    captions = known_figures()
    for name in sorted(captions, key=lambda one: FIGURES.index(one) if one in FIGURES else len(FIGURES)):
        file = folder / f"{name}.svg"
        svg = file.read_bytes()
        if NOTHING_TO_SHOW.encode() not in svg:
            yield {
                "anchor": "-".join((*file.parts[-4:-1], name)),
                "caption": captions[name],
                "address": f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}",
                "width": float(svg.partition(b' width="')[2].partition(b"pt")[0]),
            }


def _run(run: dict) -> dict:
    """A run with its log and the (value, text) of its cells, for the list of runs."""
    rule = "run_command" if run["dataset"] == DATASET else "train"
    absent = why_absent([run["status"]])
    return run | {
        "cells": [(run[of], absent if run[of] is None else format_figure(of, run[of])) for of in RUN_FIGURES],
        "log": f"logs/{rule}/{run['record'].removeprefix('runs/').removesuffix('/record.json')}.log",
        "elsewhere": resumed_elsewhere(run),
    }


def machines(runs: pd.DataFrame) -> list[dict]:
    """One row per machine, trainer and state of software and code: the columns of OF_MACHINE; the numbers of its runs,
    the sets of CPUs that they held, and their jobs: "slurm 101, 102", or "" without a scheduler.
    """
    found = []
    for _, group in runs.groupby(OF_MACHINE, sort=False, dropna=False):
        jobs = group.dropna(subset=["scheduler"]).groupby("scheduler", sort=False)["job_id"]
        found.append({
            **rows_of(group[OF_MACHINE].head(1))[0],
            "runs": " ".join(map(str, sorted(group["number"]))),
            "cpus": " or ".join(sorted(set(group["cpus"]))),
            "jobs": "; ".join(f"{scheduler} {', '.join(dict.fromkeys(ids))}" for scheduler, ids in jobs),
        })  # fmt: skip
    return found


def _dataset(folder: Path) -> dict:
    """A dataset's manifest, with its mean image as base64 if it has one (texts have none)."""
    manifest = read_manifest(folder / "prepared")
    picture = folder / "mean.png"
    encoded = None if manifest["kind"] == "tokens" else base64.b64encode(picture.read_bytes()).decode()
    return {"unreadable": [], "passed_over": 0, **manifest, "mean_picture": encoded}
