"""From records to tables: one row a run, one a run and epoch, one a setting, one a pair of frameworks."""

import hashlib
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from trainmark.records import decode_loss, read_record
from trainmark.statistics import largest_relative_difference, median_and_range

GROUP = ["experiment", "recipe", "dataset"]
"""What a section of the report, and a figure, is about."""

SETTING = [*GROUP, "framework", "device", "epochs"]
"""What runs have in common that differ in their repeat alone."""

METRICS = {
    "training_seconds": "training, s",
    "first_epoch_seconds": "first epoch, s",
    "steady_epoch_seconds": "later epochs, s each",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
    "train_loss": "train loss",
    "train_accuracy": "train accuracy",
}
"""Figures of a run that are summed up over repeats, with their heading."""


def read_records(runs_folder: Path, run_ids: Iterable[str]) -> dict[str, dict]:
    """The records of these runs, by the path they were read from, in the order given. Raises RecordError."""
    paths = [runs_folder / run_id / "record.json" for run_id in run_ids]
    return {str(path): read_record(path) for path in paths}


def runs_table(records: dict[str, dict]) -> pd.DataFrame:
    """One row a run: its place in the matrix, settings, figures, and the record that they stand in, with its hash."""
    rows = []
    for path, record in records.items():
        result = {metric: decode_loss(value) for metric, value in record["result"].items()}
        settings = record["settings"]
        provenance = record["provenance"]
        rows.append(
            {
                **record["run"],
                "status": record["status"],
                "diverged_kind": record["diverged"]["kind"] if record["diverged"] else None,
                "diverged_step": record["diverged"]["step"] if record["diverged"] else None,
                **result,
                "evaluation_seconds": record["phases_seconds"].get("evaluation", 0.0),
                "wall_seconds": record["wall_seconds"],
                "parameters": settings["parameters"],
                "batch_size": settings["batch_size"],
                "seed": settings["seed"],
                "dropout": settings["dropout"],
                "host": provenance["host"],
                "cpu_model": provenance["cpu_model"],
                "threads": provenance["threads"],
                "device_name": provenance["device"]["name"],
                "versions": ", ".join(f"{name} {version}" for name, version in provenance["versions"].items()),
                "python": provenance["python"],
                "platform": provenance["platform"],
                "trainmark": provenance["trainmark"],
                "git_commit": provenance["git_commit"],
                "started": provenance["started"],
                "record": path,
                "record_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            }
        )
    table = pd.DataFrame(rows)
    table.insert(0, "number", range(1, len(table) + 1))
    return table.astype({"diverged_step": "Int64", **{metric: "float64" for metric in METRICS}})


def curves_table(records: dict[str, dict]) -> pd.DataFrame:
    """One row a run and epoch: seconds of training, losses and accuracies."""
    rows = []
    for record in records.values():
        for entry in record["curves"]:
            row = {"id": record["run"]["id"], "epoch": entry["epoch"], "seconds": entry["seconds"]}
            row["batch_loss"] = decode_loss(entry["batch_loss"])
            for split, figures in entry["evaluations"].items():
                row[f"{split}_loss"] = decode_loss(figures["loss"])
                row[f"{split}_accuracy"] = figures["accuracy"]
            rows.append(row)
    return pd.DataFrame(rows)


def summary_table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a setting: number of runs, how many diverged, and median, min and max of each metric over the others.

    `run_numbers` names the rows of `runs` that the figures come from. A figure that no run has is NaN; `csv_text`
    says why.
    """
    rows = []
    for values, group in runs.groupby(SETTING, sort=False):
        finished = group[group["status"] == "ok"]
        row = dict(zip(SETTING, values, strict=True))
        row |= {"runs": len(group), "diverged": len(group) - len(finished)}
        for metric in METRICS:
            present = finished[metric].dropna()
            figures = median_and_range(present) if len(present) else (None, None, None)
            row |= {f"{metric}_{name}": figure for name, figure in zip(("median", "min", "max"), figures, strict=True)}
        row["run_numbers"] = " ".join(str(number) for number in group["number"])
        rows.append(row)
    return pd.DataFrame(rows).astype({f"{metric}_median": "float64" for metric in METRICS})


def of_group(table: pd.DataFrame, values: Iterable[str]) -> pd.DataFrame:
    """The rows of one experiment, recipe and dataset: `values`, in the order of GROUP."""
    return table[(table[GROUP] == list(values)).all(axis=1)]


def why_absent(diverged: bool) -> str:
    """What stands in place of a figure that is not there, of runs that all diverged or of others."""
    return "diverged" if diverged else "not measured"


def summary_figure(row: dict, metric: str, statistic: str) -> str:
    """A figure of the summary as people read it, or the word in its place."""
    value = row[f"{metric}_{statistic}"]
    return why_absent(row["diverged"] == row["runs"]) if pd.isna(value) else shown_figure(metric, value)


def csv_text(summary: pd.DataFrame) -> str:
    """The summary as CSV, with a word in each cell that has no figure."""
    rows = [
        {key: why_absent(row["diverged"] == row["runs"]) if pd.isna(value) else value for key, value in row.items()}
        for row in summary.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=summary.columns).to_csv(index=False)


def agreement_table(records: dict[str, dict]) -> pd.DataFrame:
    """How far the first steps' losses part between every two frameworks (or devices) that trained the same thing.

    Runs are compared that differ in framework and device alone: same first weights, same batches. One row for each
    experiment, recipe, dataset and pair of trainers: the largest relative difference over the steps, as the median and
    the largest over the pairs of runs. `run_ids` lists the runs, pair by pair. Recipes with dropout are left out, since
    each framework draws its own masks, and so are diverged runs.
    """
    trainers: dict[tuple, dict[tuple, tuple[str, list[float]]]] = {}
    for record in records.values():
        run = record["run"]
        losses = [decode_loss(loss) for loss in record["step_losses"]]
        if losses and record["status"] == "ok" and not record["settings"]["dropout"]:
            group = trainers.setdefault(tuple(run[key] for key in GROUP), {})
            trainer = f"{run['framework']} on {run['device']}"
            group.setdefault(trainer, {})[(run["epochs"], run["repeat"])] = (run["id"], losses)
    rows = []
    for values, group in trainers.items():
        for first, second in combinations(group, 2):
            if group[first].keys() & group[second].keys():
                names = dict(zip(GROUP, values, strict=True)) | {"first": first, "second": second}
                rows.append(names | _agreement(group[first], group[second]))
    columns = [*GROUP, "first", "second", "steps", "pairs", "median", "largest", "run_ids"]
    return pd.DataFrame(rows, columns=columns)


def _agreement(first: dict[tuple, tuple[str, list[float]]], second: dict[tuple, tuple[str, list[float]]]) -> dict:
    """Figures of one pair of trainers from their (run id, step losses) by (epochs, repeat)."""
    common = [key for key in first if key in second]
    compared = [largest_relative_difference(first[key][1], second[key][1]) for key in common]
    median, _, largest = median_and_range([difference for difference, _ in compared])
    return {
        "steps": max(steps for _, steps in compared),
        "pairs": len(common),
        "median": median,
        "largest": largest,
        "run_ids": " ".join(f"{first[key][0]} {second[key][0]}" for key in common),
    }


def shown_figure(metric: str, value: float) -> str:
    """A figure as people read it: seconds to 3 digits, accuracies in percent, losses to 4 decimals."""
    if metric.endswith("_seconds"):
        return f"{value:#.3g}" if value < 99.95 else f"{value:.0f}"
    if metric.endswith("_accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.4f}"


def terminal_text(summary: pd.DataFrame, agreement: pd.DataFrame) -> str:
    """The tables that end a workflow in the terminal: medians over repeats, and how far the frameworks agree."""
    parts = []
    for values, rows in summary.groupby(GROUP, sort=False):
        experiment, recipe, dataset = values
        parts.append(f"{experiment}: {recipe} on {dataset} (medians over the runs of a row)\n{_terminal_rows(rows)}")
        agreeing = of_group(agreement, values)
        if len(agreeing):
            parts.append(_terminal_agreement(agreeing))
    return "\n\n".join(parts) + "\n"


def _terminal_rows(summary: pd.DataFrame) -> str:
    rows = []
    for row in summary.to_dict("records"):
        figures = [
            summary_figure(row, metric, "median") for metric in ("training_seconds", "test_loss", "test_accuracy")
        ]
        runs = f"{row['diverged']} of {row['runs']} diverged" if row["diverged"] else row["runs"]
        rows.append([row["framework"], row["device"], row["epochs"], runs, *figures])
    headings = ["framework", "device", "epochs", "runs", "training, s", "test loss", "test accuracy"]
    return tabulate(rows, headings, tablefmt="simple", disable_numparse=True, colalign=["left"] * 2 + ["right"] * 5)


def _terminal_agreement(agreement: pd.DataFrame) -> str:
    rows = [
        f"  {row['first']} and {row['second']}: {row['median']:.2e} in the median, {row['largest']:.2e} at most"
        for row in agreement.to_dict("records")
    ]
    steps = agreement["steps"].max()
    return "\n".join(
        [f"Largest relative difference between the losses of the first {steps} steps, by pair of runs:", *rows]
    )
