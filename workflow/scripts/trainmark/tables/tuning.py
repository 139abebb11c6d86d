"""The table of timed tunings: what each step from a stock loop to a tuned loop gained."""

from collections.abc import Iterable, Mapping
from statistics import median

import pandas as pd

from trainmark.tables.paired import estimate, paired_ratios
from trainmark.trainer import TRAINER, Trainer

COLUMNS = [
    "experiment", "recipe", "dataset", *TRAINER, "step", "text", "threads", "taken", "pairs",
    "ratio", "low", "high", "before_epoch_seconds", "epoch_seconds",
]  # fmt: skip


def tuning_table(tunings: Iterable[Mapping]) -> pd.DataFrame:
    """Make the table, docs/columns.md: one row per step, in the order of the tuning."""
    return pd.DataFrame([row for tuning in tunings for row in _rows(tuning)], columns=COLUMNS)


def _rows(tuning: Mapping) -> Iterable[dict]:
    turns_per_epoch = tuning["epoch_samples"] / tuning["turn"]["samples"]
    before = median(tuning["steps"][0]["before_seconds"]) * turns_per_epoch if tuning["steps"] else 0.0
    for step in tuning["steps"]:
        ratios = [with_it / without for with_it, without in zip(step["seconds"], step["before_seconds"], strict=True)]
        paired = paired_ratios(ratios)
        ratio, (low, high) = estimate(ratios), paired.interval() if paired else (None, None)
        values = {"pairs": len(ratios), "ratio": ratio, "low": low, "high": high}
        seconds = {"before_epoch_seconds": before, "epoch_seconds": before * ratio}
        row = {**tuning, **Trainer.parse(tuning["trainer"])._asdict(), **step}
        yield {key: row[key] for key in COLUMNS if key in row} | values | seconds
        before = before * ratio if step["taken"] else before
