"""One tidy table of all numbers: a row per number, with its unit, its interval and how many runs it comes from."""

from collections.abc import Mapping

import pandas as pd

from trainmark.records.record import PHASES
from trainmark.tables.costs import COSTS
from trainmark.tables.formatting import is_lasting
from trainmark.tables.scaling import EFFICIENCIES, ESTIMATES
from trainmark.tables.tables import GROUP, METRICS, PHASE_METRICS, SETTING, STATISTICS, rows_of, summary_table
from trainmark.trainer import Trainer

UNITS = {
    "samples_per_second": "1/s",
    "training_gflop_per_second": "GFLOP/s",
    "peak_gflop_per_second": "GFLOP/s",
    "memory_gb_per_second": "GB/s",
    "peak_share": "share",
    "machine_peak_share": "share",
    "waiting_share": "share",
    "communication_share": "share",
    "peak_host_mib": "MiB",
    "peak_device_mib": "MiB",
    "training_joules": "J",
    "epoch_joules": "J",
} | {f"test_{name}": "share" for name in ("accuracy", "top5_accuracy")} | {"train_accuracy": "share"}  # fmt: skip

SHARES_OF_PHASES = {f"phase_shares.{phase}": f"phases.{phase}" for phase in PHASES}

COLUMNS = [
    *SETTING, "compared_with", "metric", "unit", "statistic", "value", "low", "high", "runs", "disturbed_times",
    "verdict",
]  # fmt: skip


def numbers_table(tables: Mapping[str, pd.DataFrame], currency: str) -> pd.DataFrame:
    """Make a table of all numbers of others: runs, comparisons, variants, speed_ups, break_even, targets and scaling.

    A number that was not measured, refused or withheld has a row without value; `tidy_table` leaves these out. Columns
    are in docs/columns.md.
    """
    rows = [
        *_medians(tables["runs"], currency),
        *(row for name, rows_in in COMPARISONS.items() for row in rows_in(tables[name])),
        *_break_evens(tables["break_even"]),
        *_targets(tables["targets"], tables["runs"]),
    ]
    types = dict.fromkeys(("value", "low", "high"), "float64") | {"epochs": "Int64"}
    table = pd.DataFrame(rows, columns=COLUMNS).astype(types)
    return table.assign(disturbed_times=table["disturbed_times"].eq(True))


def tidy_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """The rows of `numbers_table` that have a value."""
    return numbers[numbers["value"].notna()]


def _medians(runs: pd.DataFrame, currency: str) -> list[dict]:
    shares = {share: runs[phase] / runs["wall_seconds"] for share, phase in SHARES_OF_PHASES.items()}
    metrics = [*METRICS, "communication_share", *PHASE_METRICS, *SHARES_OF_PHASES]
    return [
        {key: row[key] for key in SETTING}
        | {"metric": metric, "unit": _unit(metric, currency), "statistic": "median"}
        | {"value": row[f"{metric}_median"], "low": row[f"{metric}_min"], "high": row[f"{metric}_max"]}
        | {"runs": int(row[f"{metric}_count"] or 0)}
        | {"disturbed_times": row["disturbed_times"] and not is_lasting(metric)}
        for row in rows_of(summary_table(runs.assign(**shares), metrics, STATISTICS | {"count": len}))
        for metric in metrics
    ]


def _unit(metric: str, currency: str) -> str:
    if metric in COSTS:
        return currency
    if metric.startswith(("phases.", "phase_shares.")):
        return "s" if metric.startswith("phases.") else "share"
    return UNITS.get(metric, "s" if metric.endswith("_seconds") else "1")


def _ratios(comparisons: pd.DataFrame) -> list[dict]:
    return [
        {key: row[key] for key in (*GROUP, "epochs", "metric", "low", "high", "verdict")}
        | Trainer.named(row["second"])._asdict()
        | {
            "compared_with": row["first"],
            "statistic": "ratio",
            "unit": "1",
            "value": row["ratio"],
            "runs": row["pairs"],
        }
        for row in rows_of(comparisons)
    ]


def _speed_ups(speed_ups: pd.DataFrame) -> list[dict]:
    return [
        {key: row[key] for key in (*SETTING, "low", "high", "verdict")}
        | {"compared_with": row["baseline"], "metric": "training_seconds", "unit": "1", "statistic": "speed_up"}
        | {"value": row["ratio"], "runs": row["pairs"]}
        for row in rows_of(speed_ups)
    ]


def _break_evens(break_even: pd.DataFrame) -> list[dict]:
    return [
        {key: row[key] for key in (*GROUP, "metric", "low", "high")}
        | Trainer.named(row["faster_after"])._asdict()
        | {"compared_with": next(row[side] for side in ("first", "second") if row[side] != row["faster_after"])}
        | {"unit": "epochs", "statistic": "break_even", "value": row["epochs"], "runs": row["pairs"]}
        for row in rows_of(break_even)
        if row["faster_after"]
    ]


def _scaling(scaling: pd.DataFrame) -> list[dict]:
    columns = {"speed_up": ESTIMATES, "efficiency": EFFICIENCIES}
    return [
        {key: row[key] for key in (*SETTING, "metric", "verdict")}
        | {"compared_with": Trainer.of(row)._replace(workers=row["of_workers"]).name, "unit": "1", "runs": row["pairs"]}
        | {"statistic": f"{row['scaling']}_{statistic}"}
        | dict(zip(("value", "low", "high"), (row[name] for name in names), strict=True))
        for row in rows_of(scaling)
        for statistic, names in columns.items()
    ]


def _targets(targets: pd.DataFrame, runs: pd.DataFrame) -> list[dict]:
    rows = []
    for row in rows_of(targets):
        trainer = {key: row[key] for key in SETTING if key != "epochs"}
        of_trainer = (runs[list(trainer)] == list(trainer.values())).all(axis=1)
        same = trainer | {"epochs": runs[of_trainer]["epochs"].max(), "runs": row["runs"]}
        times = {"metric": "target_seconds", "unit": "s", "statistic": "median_time_to_accuracy"}
        times["disturbed_times"] = row["disturbed_times"]
        rows.append(same | times | {"value": row["seconds"], "low": row["low"], "high": row["high"]})
        if row["epochs_mean"] is not None:
            mean, deviation = row["epochs_mean"], row["epochs_deviation"]
            epochs = {"metric": "target_epochs", "unit": "epochs", "statistic": "trimmed_mean"}
            rows.append(same | epochs | {"value": mean, "low": mean - deviation, "high": mean + deviation})
    return rows


COMPARISONS = {"comparisons": _ratios, "variants": _ratios, "speed_ups": _speed_ups, "scaling": _scaling}
"""For each table of comparisons, what makes its rows of numbers. They are of runs that were not disturbed."""
