"""The medians of each setting over many campaigns, and where they change.

A series is of one setting on one kind of machine, so that another machine is no change of the software: of runs on CPUs
the processor and how many of its CPUs they held, of runs on a GPU its model.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trainmark.campaigns.change_points import change_points, fewest
from trainmark.campaigns.folders import Campaign
from trainmark.campaigns.sameness import DIFFERENT, blocking, changes, facts
from trainmark.errors import DataError
from trainmark.tables.formatting import counted, format_figure, format_ratio, listed
from trainmark.tables.frames import SETTING, groups, rows_of, timed_runs, with_names
from trainmark.tables.metrics import METRICS
from trainmark.trainer import Trainer
from trainmark.variant import GROUP

SHOWN = ("training_seconds", "steady_epoch_seconds", "test_accuracy", "test_loss")


def history(campaigns: Sequence[Campaign]) -> dict[str, Any]:
    """Return what several campaigns show of each setting, in the order of time.

    campaigns: of each its name, when it began, and its number of runs.
    series: of each its setting, machine, metric and unit; its points, each with the index of its campaign, the median
        (value), smallest and largest value of the ok runs, for times of the undisturbed ones if there are any, and
        their number; its changes; the campaigns that lack it; and a note if it has too few points for a change.

    Changes are those of the medians; of times, of their logarithms. Raises DataError for fewer than two campaigns.
    """
    if len(campaigns) < 2:
        raise DataError(f"found {counted(len(campaigns), 'campaign')}; a history needs at least 2 results folders")
    campaigns = sorted(campaigns, key=lambda one: one.began)
    of_each = [one.runs.assign(campaign=place, machine=_machines(one.runs)) for place, one in enumerate(campaigns)]
    found = list(_series(pd.concat(of_each, ignore_index=True)))
    values = [[np.log(p["value"]) if row["unit"] == "s" else p["value"] for p in row["points"]] for row, _ in found]
    lengths = np.array([len(one) for one in values])
    for (row, runs), length, of_series in zip(found, lengths, change_points(values), strict=True):
        present = {point["campaign"] for point in row["points"]}
        needed = fewest(int((lengths >= min(length, fewest())).sum()))
        row["missing"] = [one.name for place, one in enumerate(campaigns) if place not in present]
        row["note"] = f"too few campaigns ({length}, needs {needed})" if length < needed else ""
        row["changes"] = list(_changes(row, of_series, campaigns, runs))
    about = [{"name": one.name, "began": one.began, "runs": len(one.runs)} for one in campaigns]
    return {"campaigns": about, "series": [row for row, _ in found]}


def places(points: Sequence[Mapping], width: float, height: float) -> list[list[float]]:
    """[x, y of the median, of the smallest and of the largest value] of points, in a picture with this width a campaign
    and this height.
    """
    low, high = min(one["low"] for one in points), max(one["high"] for one in points)
    scale, of_point = height / (high - low or 1), ("value", "low", "high")
    return [[width * (one["campaign"] + 0.5), *(scale * (high - one[key]) for key in of_point)] for one in points]


def with_unit(row: Mapping, value: float) -> str:
    """A value of a series as text."""
    return format_figure(row["metric"], value) + (" s" if row["unit"] == "s" else "")


def _machines(runs: pd.DataFrame) -> pd.Series:
    """The kind of machine of each run, in words."""
    held, model = runs["held_cpus"].map(lambda count: counted(count, "CPU")), runs["cpu_model"].fillna("unknown")
    return (
        runs["gpu"].fillna("unknown GPU").str.split(", ").str[0].where(runs["device"] == "gpu", held + " of " + model)
    )


def _series(runs: pd.DataFrame) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield each series without its changes, and the runs of its setting."""
    finished = runs[runs["status"] == "ok"]
    timed = pd.concat([timed_runs(own) for _, own in groups(finished, ["campaign"])]) if len(finished) else finished
    for _, own in groups(finished, [*SETTING, "machine"]):
        first = rows_of(with_names(own.head(1)))[0]
        named = {key: first[key] for key in (*GROUP, "machine", "epochs")} | {"trainer": Trainer.of(first).name}
        for metric in (one for one in SHOWN if own[one].notna().any()):
            about = METRICS[metric]
            shown = (own if about.is_lasting else own[own.index.isin(timed.index)]).dropna(subset=metric)
            points = shown.groupby("campaign")[metric].agg(value="median", low="min", high="max", runs="count")
            yield named | {"metric": metric, "unit": about.unit, "points": rows_of(points.reset_index())}, own


def _changes(
    row: Mapping, found: Mapping[int, float], campaigns: Sequence[Campaign], runs: pd.DataFrame
) -> Iterator[dict]:
    """Yield each change of a series: its place among the points, the campaigns before and after it, the medians of the
    stretches before and after it, their ratio, the corrected p-value, what else changed, and all of it in words.
    """
    ends, values = [0, *found, len(row["points"])], [point["value"] for point in row["points"]]
    for start, (place, p_value), end in zip(ends, found.items(), ends[2:], strict=False):
        first, second = float(np.median(values[start:place])), float(np.median(values[place:end]))
        indices = [row["points"][at]["campaign"] for at in (place - 1, place)]
        before, after = (campaigns[index] for index in indices)
        at_first, at_second = (runs[runs["campaign"] == index] for index in indices)
        known = facts((before, after), (at_first, at_second))
        changed = [
            text for one in (*blocking(known), *changes(known)) if one.status == DIFFERENT for text in one.changes
        ]
        ratio = second / first if first else None
        yield {
            "place": place, "before": before.name, "after": after.name, "median_before": first,
            "median_after": second, "ratio": ratio, "p_value": p_value, "changed": changed,
            "sentence": f"{row['experiment']}, {row['trainer']}, {counted(row['epochs'], 'epoch')}, {row['machine']}, "
            f"{METRICS[row['metric']].heading.split(',')[0]}: from {with_unit(row, first)} to {with_unit(row, second)}"
            f"{f', ratio {format_ratio(ratio)}' if ratio else ''} (p = {p_value:.2g}), between {before.name} "
            f"({before.began[:10]}) and {after.name} ({after.began[:10]}); "
            + (f"changed: {listed(changed)}" if changed else "nothing that is recorded changed"),
        }  # fmt: skip
