"""Makes the table of curves: what each run reached after each epoch, and when."""

from collections.abc import Iterator, Mapping
from math import nan

import pandas as pd

from trainmark.records.record import decode_loss
from trainmark.records.resolved import epoch_steps_of

CURVE_COLUMNS = [
    "epochs_trained", "training_seconds", "seconds", "waiting_seconds", "batch_loss",
    *(f"{split}_{name}" for split in ("test", "train") for name in ("loss", "accuracy", "top5_accuracy")),
]  # fmt: skip
"""The columns of numbers in the table of curves."""

TARGET_COLUMNS = ("target_accuracy", "target_seconds", "target_epochs")
"""The columns on the time to accuracy in the table of runs."""

WITHIN_EPOCH = "within"
"""The `part` of an evaluation within an epoch, in the table of curves."""


def curves_table(records: dict[str, dict]) -> pd.DataFrame:
    """Make the table of curves: one row per run and epoch, and one per evaluation within an epoch.

    An evaluation within an epoch has the `part` WITHIN_EPOCH and no time of its own; columns are in docs/columns.md.
    """
    rows = [{"id": record["run"]["id"], **row} for record in records.values() for row in _evaluations(record)]
    table = pd.DataFrame(rows, columns=["id", "epoch", "part", *CURVE_COLUMNS])
    return table.astype({"id": "str", "part": "str", "epoch": "int64", **dict.fromkeys(CURVE_COLUMNS, "float64")})


def reached_target(record: Mapping) -> dict:
    """TARGET_COLUMNS of a run, up to the first evaluation that reached the target; None without a target."""
    target = record["settings"].get("target_accuracy")
    reached = (row for row in _evaluations(record) if row.get("test_accuracy") is not None)
    first = next((row for row in reached if row["test_accuracy"] >= target), {}) if target else {}
    values = (target, first.get("training_seconds"), first.get("epochs_trained"))
    return dict(zip(TARGET_COLUMNS, values, strict=True))


def _evaluations(record: Mapping) -> list[dict]:
    """The evaluations of a run after epochs and within them, in the order of training."""
    return sorted([*_epoch_rows(record), *_step_rows(record)], key=lambda row: row["epochs_trained"])


def _epoch_rows(record: Mapping) -> Iterator[dict]:
    training_seconds = record["result"]["first_step_seconds"] or 0.0
    for entry in record["curves"]:
        training_seconds += nan if entry["seconds"] is None else entry["seconds"]
        yield {
            **{key: entry[key] for key in ("epoch", "part", "seconds", "waiting_seconds")},
            "epochs_trained": entry["epoch"],
            "training_seconds": training_seconds,
            "batch_loss": decode_loss(entry["batch_loss"]),
        } | {
            f"{split}_{name}": decode_loss(value)
            for split, evaluation in entry["evaluations"].items()
            for name, value in evaluation.items()
        }


def _step_rows(record: Mapping) -> Iterator[dict]:
    for evaluation in record["step_evaluations"]:
        yield {
            "epoch": evaluation["epoch"],
            "part": WITHIN_EPOCH,
            "epochs_trained": evaluation["step"] / epoch_steps_of(record),
            "training_seconds": record["result"]["first_step_seconds"] + evaluation["training_seconds"],
        } | {f"test_{name}": decode_loss(evaluation[name]) for name in ("loss", "accuracy", "top5_accuracy")}
