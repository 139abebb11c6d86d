"""From records to tables: one row a run, one a run and epoch, one a setting, one a pair of frameworks."""

import hashlib
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from trainmark.records import decode_loss, read_record
from trainmark.statistics import largest_relative_difference, median_and_range

SETTING = ["experiment", "recipe", "dataset", "framework", "device", "epochs"]
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

LOSSES = ("test_loss", "train_loss")


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


def why_absent(row: dict) -> str:
    """What stands in place of a figure that a setting does not have."""
    return "diverged" if row["diverged"] == row["runs"] else "not measured"


def csv_text(summary: pd.DataFrame) -> str:
    """The summary as CSV, with a word in each cell that has no figure."""
    rows = [
        {key: why_absent(row) if pd.isna(value) else value for key, value in row.items()}
        for row in summary.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=summary.columns).to_csv(index=False)


def agreement_table(records: dict[str, dict]) -> pd.DataFrame:
    """How far the first steps' losses part between every two frameworks (or devices) that trained the same thing.

    Runs are compared that differ in framework and device alone: same first weights, same batches. One row for each
    experiment, recipe, dataset and pair, with the largest relative difference over all repeats and epoch settings.
    Recipes with dropout are left out: each framework draws its own masks, so their losses can't agree.
    """
    groups: dict[tuple, list[dict]] = {}
    for record in records.values():
        if not record["settings"]["dropout"]:
            group = tuple(record["run"][key] for key in ("experiment", "recipe", "dataset"))
            groups.setdefault(group, []).append(record)
    rows = []
    for (experiment, recipe, dataset), members in groups.items():
        worst: dict[tuple[str, str], tuple[float, int, str]] = {}
        for first, second in combinations(members, 2):
            same = all(first["run"][key] == second["run"][key] for key in ("epochs", "repeat"))
            if same and first["step_losses"] and second["step_losses"]:
                losses = ([decode_loss(loss) for loss in record["step_losses"]] for record in (first, second))
                difference, steps = largest_relative_difference(*losses)
                pair = (_trainer(first), _trainer(second))
                if pair not in worst or difference > worst[pair][0]:
                    worst[pair] = (difference, steps, f"{first['run']['id']} {second['run']['id']}")
        for (first_name, second_name), (difference, steps, ids) in worst.items():
            rows.append(
                {
                    "experiment": experiment,
                    "recipe": recipe,
                    "dataset": dataset,
                    "first": first_name,
                    "second": second_name,
                    "steps": steps,
                    "largest_relative_difference": difference,
                    "run_ids": ids,
                }
            )
    columns = ["experiment", "recipe", "dataset", "first", "second", "steps", "largest_relative_difference"]
    return pd.DataFrame(rows, columns=[*columns, "run_ids"])


def _trainer(record: dict) -> str:
    return f"{record['run']['framework']} on {record['run']['device']}"


def shown_figure(metric: str, value: float) -> str:
    """A figure as people read it: seconds to 3 digits, accuracies in percent, losses to 4 decimals."""
    if metric.endswith("_seconds"):
        return f"{value:#.3g}" if value < 99.95 else f"{value:.0f}"
    if metric.endswith("_accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.4f}"


def terminal_text(summary: pd.DataFrame, agreement: pd.DataFrame) -> str:
    """The tables that end a workflow in the terminal: medians over repeats, and how far the frameworks agree."""
    groups = ["experiment", "recipe", "dataset"]
    parts = []
    for (experiment, recipe, dataset), rows in summary.groupby(groups, sort=False):
        parts.append(f"{experiment}: {recipe} on {dataset} (medians over the runs of a row)\n{_terminal_rows(rows)}")
        agreeing = agreement[(agreement[groups] == [experiment, recipe, dataset]).all(axis=1)]
        if len(agreeing):
            parts.append(_terminal_agreement(agreeing))
    return "\n\n".join(parts) + "\n"


def _terminal_rows(summary: pd.DataFrame) -> str:
    rows = []
    for row in summary.to_dict("records"):
        figures = [
            why_absent(row) if pd.isna(row[f"{metric}_median"]) else shown_figure(metric, row[f"{metric}_median"])
            for metric in ("training_seconds", "test_loss", "test_accuracy")
        ]
        runs = f"{row['runs']}, {row['diverged']} diverged" if row["diverged"] else row["runs"]
        rows.append([row["framework"], row["device"], row["epochs"], runs, *figures])
    headings = ["framework", "device", "epochs", "runs", "training, s", "test loss", "test accuracy"]
    return tabulate(rows, headings, tablefmt="simple", disable_numparse=True, colalign=["left"] * 2 + ["right"] * 5)


def _terminal_agreement(agreement: pd.DataFrame) -> str:
    rows = [
        f"  {row['first']} and {row['second']}: {row['largest_relative_difference']:.2e}"
        for row in agreement.to_dict("records")
    ]
    return "\n".join([f"Losses of the first {agreement['steps'].max()} steps differ, relatively, by at most", *rows])
