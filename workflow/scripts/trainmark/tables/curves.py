"""Makes the table of curves: what each run reached after each epoch, and when."""

from collections.abc import Mapping
from math import nan

import pandas as pd

from trainmark.records.record import decode_loss
from trainmark.records.resolved import epoch_steps_of

CURVE_COLUMNS = [
    "epochs_trained", "training_seconds", "seconds", "waiting_seconds", "batch_loss",
    *(f"{split}_{name}" for split in ("test", "train") for name in ("loss", "accuracy", "top5_accuracy")),
]  # fmt: skip
"""The columns of numbers in the table of curves."""

WITHIN_EPOCH = "within"
"""The `part` of an evaluation within an epoch, in the table of curves."""


def curves_table(records: dict[str, dict]) -> pd.DataFrame:
    """Make the table of curves: one row per run and epoch, and one per evaluation within an epoch, which has no time of
    its own. Columns are in docs/columns.md.
    """
    rows = [{"id": record["run"]["id"], **row} for record in records.values() for row in _evaluations(record)]
    table = pd.DataFrame(rows, columns=["id", "epoch", "part", *CURVE_COLUMNS])
    return table.astype({"id": "str", "part": "str", "epoch": "int64", **dict.fromkeys(CURVE_COLUMNS, "float64")})


def reached_target(record: Mapping) -> dict:
    """The columns of the table of runs on the first evaluation that reached the target; None without a target."""
    target = record["settings"].get("target_accuracy")
    reached = (row for row in _evaluations(record) if row.get("test_accuracy") is not None)
    first = next((row for row in reached if row["test_accuracy"] >= target), {}) if target else {}
    seconds, epochs = first.get("training_seconds"), first.get("epochs_trained")
    return {"target_accuracy": target, "target_seconds": seconds, "target_epochs": epochs}


def _evaluations(record: Mapping) -> list[dict]:
    """The evaluations of a run after epochs and within them, in the order of training."""
    rows, first_step_seconds = [], record["result"]["first_step_seconds"] or 0.0
    seconds = first_step_seconds
    for entry in record["curves"]:
        seconds += nan if entry["seconds"] is None else entry["seconds"]
        row = {key: entry[key] for key in ("epoch", "part", "seconds", "waiting_seconds")}
        row |= {"epochs_trained": entry["epoch"], "training_seconds": seconds}
        row["batch_loss"] = decode_loss(entry["batch_loss"])
        for split, evaluation in entry["evaluations"].items():
            row |= {f"{split}_{name}": decode_loss(value) for name, value in evaluation.items()}
        rows.append(row)
    for entry in record["step_evaluations"]:
        row = {"epoch": entry["epoch"], "part": WITHIN_EPOCH, "epochs_trained": entry["step"] / epoch_steps_of(record)}
        row["training_seconds"] = first_step_seconds + entry["training_seconds"]
        row |= {f"test_{name}": decode_loss(entry[name]) for name in ("loss", "accuracy", "top5_accuracy")}
        rows.append(row)
    return sorted(rows, key=lambda row: row["epochs_trained"])
