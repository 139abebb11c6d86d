"""The report: one HTML file that holds everything it shows, and works offline.

Every figure in a table carries the numbers of the runs it comes from (data-runs), the name of the figure
(data-field), how it was made of them (data-statistic) and its full value (data-value); every run names its record.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from trainmark.recipes import RECIPES
from trainmark.records import read_record
from trainmark.tables import (
    GROUP,
    METRICS,
    SETTING,
    of_group,
    shown_figure,
    summary_figure,
    summary_table,
    why_absent,
)

TEMPLATES = Path(__file__).parent

ALWAYS = ("training_seconds", "test_loss", "test_accuracy")
"""Columns that a table has even where every run diverged, to say so; others are left out where nobody measured them."""


@dataclass(frozen=True)
class Cell:
    """One figure in a table, traceable to its runs; `value` None where there is none, and `text` says why."""

    text: str
    runs: str
    field: str
    statistic: str
    value: float | None


def _summary_cells(row: Mapping) -> Iterator[Cell]:
    """Median (with the range behind it) of each metric of a setting."""
    for metric in METRICS:
        for statistic in ("median", "min", "max"):
            text, value = summary_figure(row, metric, statistic), row[f"{metric}_{statistic}"]
            yield Cell(text, row["run_numbers"], metric, statistic, None if pd.isna(value) else value)


def _run_cell(run: Mapping, field: str) -> Cell:
    value = run[field]
    absent = pd.isna(value)
    text = why_absent(run["status"] == "diverged") if absent else shown_figure(field, value)
    return Cell(text, str(run["number"]), field, "value", None if absent else value)


def _settings(runs: pd.DataFrame) -> dict[str, str]:
    """What all runs of a section have in common, for its table of settings."""
    first = read_record(Path(runs["record"].iloc[0]))["settings"]
    optimizer = dict(first["optimizer"])
    transform = first["input"]
    crop = "whole image" if transform["crop"] is None else f"centred window of {transform['crop']} pixels"
    mean = (
        f"minus the mean image ({transform['mean_window']} window)" if transform["subtract_mean"] else "mean image kept"
    )
    recipe = RECIPES[runs["recipe"].iloc[0]]
    return {
        "architecture": f"{first['architecture']}, {first['parameters']:,} parameters (from {recipe.source})",
        "first weights": f"{first['initializer']}, biases 0, by numpy from the seed {first['seed']} and the repeat",
        "optimizer": f"{optimizer.pop('rule')}, " + ", ".join(f"{name} {value:g}" for name, value in optimizer.items()),
        "batch size": f"{first['batch_size']} samples, in an order drawn by numpy, the same in all frameworks",
        "input": f"{crop}, {mean}, times {transform['scale']:.6g}",
        "arithmetic": first["dtype"],
        "dropout": "each framework draws its own masks" if first["dropout"] else "none",
    }


def _sections(runs: pd.DataFrame, agreement: pd.DataFrame, config: Mapping, figures: Path) -> Iterator[dict]:
    summary = summary_table(runs)
    numbers = dict(zip(runs["id"], runs["number"], strict=True))
    for values, group in runs.groupby(GROUP, sort=False):
        experiment, recipe, dataset = values
        here = of_group(summary, values)
        folder = figures / experiment / recipe / dataset
        yield {
            "title": f"{recipe} on {dataset}",
            "experiment": experiment,
            "description": config["experiments"][experiment]["description"],
            "settings": _settings(group),
            "rows": [
                {**row, "cells": {(cell.field, cell.statistic): cell for cell in _summary_cells(row)}}
                for row in here.to_dict("records")
            ],
            "metrics": {m: title for m, title in METRICS.items() if m in ALWAYS or here[f"{m}_median"].notna().any()},
            "agreement": [
                {**row, "runs": " ".join(str(numbers[run_id]) for run_id in row["run_ids"].split())}
                for row in of_group(agreement, values).to_dict("records")
            ],
            "diverged": group[group["status"] == "diverged"].to_dict("records"),
            "figures": {name: _inline_svg(folder / f"{name}.svg") for name in ("curves", "training_time")},
        }


def _inline_svg(path: Path) -> Markup:
    """The <svg> element of a file that this workflow wrote; ids are made its own, since a page has one id space."""
    text = path.read_text()
    text = text[text.index("<svg") :]
    prefix = "-".join(path.parts[-4:]).replace(".svg", "")
    for pattern in ('id="', 'xlink:href="#', "url(#"):
        text = text.replace(pattern, f"{pattern}{prefix}-")
    return Markup(text)  # noqa: S704 (matplotlib's own output, from names that the config check allows)


def _dataset(folder: Path) -> dict:
    """A dataset's manifest, with its mean picture where it has one (texts have none)."""
    manifest = json.loads((folder / "prepared" / "manifest.json").read_text())
    picture = folder / "mean.png"
    encoded = None if manifest["kind"] == "tokens" else base64.b64encode(picture.read_bytes()).decode()
    return {"unreadable": [], **manifest, "mean_picture": encoded}


def _machines(runs: pd.DataFrame) -> list[dict]:
    keys = ["framework", "versions", "device", "device_name", "host", "cpu_model", "threads", "python", "platform"]
    keys += ["trainmark", "git_commit"]
    machines = runs.groupby(keys, sort=False, dropna=False)["number"]
    return [
        {**dict(zip(keys, values, strict=True)), "runs": " ".join(str(number) for number in numbers)}
        for values, numbers in machines
    ]


def render(
    runs: pd.DataFrame, agreement: pd.DataFrame, config: Mapping, figures_folder: Path, datasets_folder: Path
) -> str:
    """The whole page. `runs` and `agreement` are the tables of `tables`, `config` the checked config."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    fields = ("training_seconds", "first_epoch_seconds", "steady_epoch_seconds", "test_loss", "test_accuracy")
    return environment.get_template("page.html.j2").render(
        runs=[{**run, "cells": [_run_cell(run, field) for field in fields]} for run in runs.to_dict("records")],
        run_headings=[METRICS[field] for field in fields],
        setting_keys=[key for key in SETTING if key not in GROUP],
        sections=list(_sections(runs, agreement, config, figures_folder)),
        datasets=[_dataset(datasets_folder / name) for name in dict.fromkeys([*runs["dataset"], *config["prepare"]])],
        machines=_machines(runs),
        config=json.dumps(config, indent=2),
        diverged=int((runs["status"] == "diverged").sum()),
    )
