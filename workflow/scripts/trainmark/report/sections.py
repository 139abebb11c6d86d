"""The report's sections, one per experiment, recipe and dataset."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.run import group_title
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import DATASET, FRAMEWORK, metrics_file
from trainmark.records.record import read_record
from trainmark.records.resolved import batch_size_of, input_of, optimizer_of
from trainmark.report.cells import agreement_cells, comparison_cells, summary_cells
from trainmark.report.embedded import figures
from trainmark.report.further import further_tables
from trainmark.report.networks import Model
from trainmark.report.parity import certified
from trainmark.report.scored_texts import scored_texts_table
from trainmark.report.standings import Place, Standing
from trainmark.tables.consistency import code_differences
from trainmark.tables.costs import COSTS, currency_of
from trainmark.tables.formatting import censored_counts, counted, named_runs
from trainmark.tables.mixed_environments import mixed_environments
from trainmark.tables.peaks import PEAK_METRICS
from trainmark.tables.results import Results
from trainmark.tables.run_checks import evaluation_gaps
from trainmark.tables.tables import (
    CACHE_COUNTS,
    HEADINGS,
    METRICS,
    PHASE_METRICS,
    groups,
    rows_of,
    select_group,
    summary_table,
    with_names,
)
from trainmark.tables.verdicts import reasons_beside_verdict, verdict_notes
from trainmark.tables.waiting import waiting_sentences
from trainmark.variant import levels_of, split_name

IN_WORDS = ("seed", "batch_size", "input", "initial_weights", "optimizer", "optimizer_restarts")
"""Settings that the table of settings describes in words. The other settings are listed there as in the config."""

ALWAYS = ("training_seconds", "test_loss", "test_accuracy")
"""Metrics that are shown even if all runs were censored. Other metrics are left out if no run measured them."""

OF_MEDIANS = {name: heading for name, heading in METRICS.items() if name not in PEAK_METRICS}
"""The metrics of the table of medians. Those of peaks have a table of their own."""


def sections(
    results: Results, config: Mapping, models: Mapping[tuple[str, ...], Model], standings: Iterable[Standing]
) -> Iterator[dict]:
    """Yield the values for the template of each section, in the order of the config. models: from `networks.models`."""
    numbers = results.numbers
    descriptions = {name: experiment["description"] for name, experiment in config["experiments"].items()}
    descriptions |= {split_name(name)[0]: description for name, description in descriptions.items()}
    standings = list(standings)
    for place, (of_group, values, group) in enumerate(results.groups(), start=1):
        experiment, recipe, dataset = values
        folder = results.folder / "figures" / experiment / recipe / dataset
        of_variants = of_group is not results
        own = [one for one in standings if one.group == values]
        yield {
            "anchor": f"section-{place}",
            "title": group_title(recipe, dataset)
            + (f", {counted(group['variant'].nunique(), 'variant')}" if of_variants else ""),
            "experiment": experiment,
            "statuses": list(group["status"]),
            "parity": select_group(of_group.parity, values),
            "standings": own,
            "variants": _variants(own) if of_variants else [],
            "is_grid": of_variants and group["variant"].map(levels_of).any(),
            "description": descriptions[experiment],
            "censored": [run for run in rows_of(group.sort_values("number")) if run["status"] != "ok"],
            "mixed_environments": [
                *mixed_environments(group),
                *waiting_sentences(group),
                *code_differences(of_group.certificates.get(values), group),
                *(() if of_variants else evaluation_gaps(group)),
            ],
            **_summaries(with_names(group), currency_of(config)),
            "energy": energy_gaps(group),
            "scored_texts": scored_texts_table(group),
            "is_command": dataset == DATASET,
            "certificate": certified(
                of_group.certificates.get(values),
                results.plan["certificates"].get("/".join(values), {}).get("file", ""),
            ),
            "comparisons": _comparisons(select_group(of_group.comparisons, values), numbers),
            "agreement": [
                row | {"cells": agreement_cells(row, numbers)}
                for row in rows_of(select_group(of_group.agreement, values))
            ],
            "differences": list(select_group(of_group.comparisons, values)["reason"].unique()) if of_variants else [],
            "settings": _command_settings(group, results.folder)
            if dataset == DATASET
            else _settings_of(group, models[values], results.folder),
            "figures": list(figures(folder)),
            "further": further_tables(of_group, values, numbers),
        }


def _variants(standings: Iterable[Standing]) -> dict[str, list[Place]]:
    """The place of each variant by each metric, those of a trainer by their training time."""
    places: dict[str, list[Place]] = {}
    for standing in standings:
        for place in standing.places:
            places.setdefault(place.trainer, []).append(place)
    return places


def _summaries(runs: pd.DataFrame, currency: str) -> dict:
    """The section's metrics with their headings, and the rows of its tables of medians and phases."""
    summary = summary_table(runs)
    medians = [
        row
        | {"censored": censored_counts(row)}
        | {"cells": {(cell.field, cell.statistic): cell for cell in summary_cells(row, OF_MEDIANS)}}
        for row in rows_of(summary)
    ]
    phases = [
        row | {"cells": list(summary_cells(row, PHASE_METRICS, ["median"]))}
        for row in rows_of(summary_table(runs, [*PHASE_METRICS, *CACHE_COUNTS]))
    ]
    measured = {name for name in OF_MEDIANS if summary[f"{name}_median"].notna().any()}
    shown = {name: text for name, text in OF_MEDIANS.items() if name in ALWAYS or name in measured}
    priced = {name: f"{text}, {currency}" for name, text in shown.items() if name in COSTS}
    return {"metrics": shown | priced, "medians": medians, "phases": phases}


def _comparisons(comparisons: pd.DataFrame, numbers: Mapping[str, int]) -> dict:
    """The rows of the table of comparisons.

    too_few: the number of repeats if too small for a verdict, else None.
    run_numbers: in each row, the numbers of the runs of its pairs, pair by pair.
    """
    rows = [
        row
        | {
            "heading": HEADINGS[row["metric"]],
            "second": row["second"].replace(FRAMEWORK, row["recipe"], 1)
            if row["dataset"] == DATASET
            else row["second"],
            "cells": cells,
            "run_numbers": cells["ratio"].runs,
            "notes": verdict_notes(row),
            "left_out_reasons": reasons_beside_verdict(row),
        }
        for row in rows_of(comparisons)
        for cells in [comparison_cells(row, numbers)]
    ]
    repeats = max((row["pairs"] + row["left_out"] for row in rows), default=0)
    return {
        "rows": rows,
        "too_few": repeats if repeats < LEAST_PAIRS else None,
        "needed": LEAST_PAIRS,
    }


def energy_gaps(runs: pd.DataFrame) -> list[str]:
    """A sentence for each reason why energy was not measured; it names the runs unless it applies to all."""
    missing = runs[runs["training_joules"].isna()]
    of_reasons = missing.groupby(missing["energy_reason"].fillna("no reason given"), sort=False)["number"]
    return [
        f"Energy{'' if len(own) == len(runs) else f' of {named_runs(own)}'}: not measured ({reason})."
        for reason, own in of_reasons
    ]


def _settings_of(runs: pd.DataFrame, model: Model, folder: Path) -> dict[str, object]:
    """The settings of a section; where its variants differ, those of each."""
    if "variant" not in runs:
        return _settings(runs, model, folder)
    of_each = {variant: _settings(own, model, folder) for (variant,), own in groups(runs, ["variant"])}
    found: dict[str, object] = {}
    for key in dict.fromkeys(key for settings in of_each.values() for key in settings):
        texts = {variant: settings.get(key, "defaults") for variant, settings in of_each.items()}
        each = "; ".join(f"{variant}: {text}" for variant, text in texts.items())
        found[key] = next(iter(texts.values())) if len(set(map(str, texts.values()))) == 1 else each
    return found


def _settings(runs: pd.DataFrame, model: Model, folder: Path) -> dict[str, object]:
    """The settings that all runs of a section share, for its table of settings. folder: the results folder."""
    first = read_record(folder / runs["record"].iloc[0])
    network, optimizer, configured = first["network"], optimizer_of(first), first["settings"]
    recipe, transform = RECIPES[runs["recipe"].iloc[0]], input_of(first)
    settings = {
        "architecture": Markup('{}, {:,} parameters (from {}): <a href="#{}">layers</a>').format(
            network["architecture"], network["parameters"], recipe.source, model.anchor
        ),
        "initial weights": _initial_weights(first),
        "optimizer": _optimizer(optimizer, first["settings"].get("optimizer_restarts", 0)),
        "batch size": f"{batch_size_of(first)} samples; numpy draws their order, which is the same in all frameworks",
        "input": _plain(asdict(transform)) if transform else "token ids, as they are stored",
        "arithmetic": network["dtype"],
        "dropout": "each framework draws its own masks" if network["dropout"] else "none",
    }
    return settings | {
        key: _plain(value) for key, value in configured.items() if key not in IN_WORDS and value not in (None, {})
    }


def _optimizer(constants: Mapping, restarts: int) -> str:
    """The optimizer in words."""
    named = ", ".join(f"{name} {value:g}" for name, value in constants.items() if name != "rule")
    again = f", made anew {counted(restarts, 'time')} within a run, at equal distances" if restarts else ""
    return f"{constants['rule']}, {named}{again}"


def _plain(value: object) -> object:
    """A setting as text; of a mapping the keys that are set, as in "iterator: thread, store: files"."""
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{key}: {part}" for key, part in value.items() if part is not None) or "defaults"


def _initial_weights(record: Mapping) -> str:
    """Say where the weights before the first step come from."""
    if file := record["settings"].get("initial_weights"):
        return f"the trained weights in {file}, in every repeat"
    return (
        f"kernels by {record['inputs']['recipe']['initializer']}, other parameters by constants of their layers; "
        f"drawn by numpy from the seed {record['settings']['seed']} and the number of the repeat"
    )


def _command_settings(runs: pd.DataFrame, folder: Path) -> dict[str, object]:
    """The command of a section and the settings that all its runs share."""
    record = read_record(folder / runs["record"].iloc[0])
    command = record["inputs"]["recipe"]
    files = ", ".join(f"{file['path']} (SHA-256 {file['sha256'][:12]}...)" for file in command["files"])
    words = {
        "command": command["command"],
        "files": files,
        "environment": command["environment"] or command["container"] or "that of snakemake",
        "variables": ", ".join(f"{name}={value}" for name, value in command["variables"].items()),
        "epochs are read from": f"{metrics_file(command['metrics']) or 'its output'} ({command['metrics']['format']})",
        "seed": record["settings"]["seed"],
    }
    return {key: value for key, value in words.items() if value != ""}
