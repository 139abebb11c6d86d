"""Compares published results with ours: does a published number lie within the range of our runs?

A number of one more run of the same training lies outside the range of n runs with a probability of 2 / (n + 1). One
published number outside shows nothing, therefore; many show another training.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isnan, nan
from operator import itemgetter

import numpy as np
import pandas as pd

from trainmark.config.references import references_of
from trainmark.recipes.recipe import differing_settings, effective_settings
from trainmark.tables.curves import WITHIN_EPOCH
from trainmark.tables.formatting import counted, listed
from trainmark.tables.frames import by_trainer, columns_of, groups, number
from trainmark.tables.metrics import KNOWN
from trainmark.variant import GROUP

REACHED = ("test_loss", "test_accuracy", "train_loss", "train_accuracy")
"""The published metrics that do not depend on the hardware."""

TIME_RATIO = "training_time_ratio"
"""The training time as a multiple of that of the source's fewest epochs."""

WITHIN, OUTSIDE = "within", "outside"
"""The verdicts on a published number: whether it lies in the range of our runs. On times there is none."""

MUCH_CLOSER = 10.0
"""Another experiment explains a number that is so many times as far from our range as from its own, and farther from
ours than either range is wide. Otherwise chance would explain a narrow miss, and a wide range any number."""

OF_NUMBER = ["recipe", "dataset", "compared_with", "epochs", "metric"]
"""The columns that identify a published number."""


def published_rows(
    runs: pd.DataFrame, curves: pd.DataFrame, records: Iterable[Mapping], references: Sequence[Mapping]
) -> Iterator[dict]:
    """Yield rows of numbers: each published number with the range of our runs, and then their median with it.

    With `optimizer_restarts`, the epochs of the source are those of a part of a run between two restarts, and the
    number of a run is the median of those at the ends of its parts. The verdict is WITHIN or OUTSIDE. If it is OUTSIDE,
    the reason names an experiment that explains it, and its settings.
    """
    firsts = {(one["run"]["experiment"], one["run"]["recipe"]): one for one in reversed(list(records))}
    after_epochs = curves[curves["part"] != WITHIN_EPOCH].set_index(["id", "epoch"])
    rows: list[dict] = []
    for group, of_group in groups(runs, GROUP):
        of_epochs = after_epochs[after_epochs.index.isin(of_group["id"], level="id")]
        reached = {metric: of_epochs[metric][np.isfinite(of_epochs[metric])].to_dict() for metric in REACHED}
        for reference in references_of(group, references):
            for trainer, of_trainer in by_trainer(of_group):
                own = columns_of(group, trainer) | {"compared_with": reference["name"]}
                rows += [own | row for row in _rows(reference, of_trainer, reached)]
    gaps = pd.DataFrame(rows, columns=[*OF_NUMBER, "experiment", "gap", "width"]).fillna({"gap": inf, "width": inf})
    gaps = gaps.groupby([*OF_NUMBER, "experiment"], as_index=False).max()
    for row in rows:
        yield row | {"reason": _explanation(row, gaps, firsts) if row["verdict"] == OUTSIDE else ""}
        absent = "diverged" if isnan(row["median"]) else ""
        yield row | {"statistic": "beside_published", "value": row["median"], "verdict": absent}


def counts_within(numbers: pd.DataFrame) -> list[str]:
    """For each source of these numbers, how many of them lie within the range of our runs, in words."""
    lines = []
    judged = numbers[(numbers["statistic"] == "published") & (numbers["verdict"] != "")]
    for (source,), of_source in groups(judged, ["compared_with"]):
        count = len(of_source[OF_NUMBER].drop_duplicates())
        runs = of_source["runs"].astype(float)
        share = ((runs - 1) / (runs + 1)).mean()  # the complement of 2 / (n + 1)
        counts = [f"{(own['verdict'] == WITHIN).sum()} ({one.name})" for one, own in by_trainer(of_source)]
        lines.append(
            f"{source}: within the range of our runs are, of {counted(count, 'published number')}, {listed(counts)}; "
            f"one more run of the same training would have {share * count:.1f} on average"
        )
    return lines


def _rows(reference: Mapping, runs: pd.DataFrame, reached: Mapping[str, Mapping]) -> Iterator[dict]:
    """Yield the rows of one source and trainer."""
    parts = int(runs["optimizer_restarts"].iloc[0]) + 1
    timed = sorted((one for one in reference["results"] if "training_seconds" in one), key=itemgetter("epochs"))
    for result in reference["results"]:
        epochs, lengths = result["epochs"], runs["epochs"] // parts
        fitting = runs[(runs["status"] != "out_of_memory") & (lengths == epochs if parts > 1 else lengths >= epochs)]
        shortest = fitting.sort_values(["repeat", "epochs"]).drop_duplicates("repeat")
        places = [[(run_id, epochs * part) for part in range(1, parts + 1)] for run_id in shortest["id"]]
        own, half = {"epochs": epochs, "run_ids": list(shortest["id"])}, 0.5 * 10 ** -reference["decimals"]
        for metric in (name for name in REACHED if name in result and reached[name] and places):
            values = [float(np.median([reached[metric].get(place, nan) for place in of_run])) for of_run in places]
            yield _row(own, metric, result[metric], values, half)
        if result in timed[1:]:
            yield from _time_ratio(timed[0], result, runs, parts)


def _row(own: Mapping, metric: str, published: float, values: Sequence[float], half: float | None = None) -> dict:
    """A row, with the median, the gap between the published number and our range, and the width of the range.

    own: its epochs and run_ids. values: of our runs; NaN of one that diverged before it had these epochs. half: of the
    last published digit; None for no verdict.
    """
    finite = [value for value in values if not isnan(value)] or [nan]
    low, high, verdict = min(finite), max(finite), ""
    if half is not None:
        within = low <= published + half and published - half <= high
        verdict = WITHIN if (any(map(isnan, values)) if isnan(published) else within) else OUTSIDE
    ours = {"runs": len(values), "median": float(np.median(values)), "width": high - low if len(values) > 1 else inf}
    ours["gap"] = max(low - published, published - high) if verdict == OUTSIDE else 0.0
    unit = KNOWN[metric].unit if metric in KNOWN else "1"
    return number({**own, **ours}, "published", metric, unit, (published, low, high), verdict=verdict)


def _time_ratio(fewest: Mapping, result: Mapping, runs: pd.DataFrame, parts: int) -> Iterator[dict]:
    """Yield the row of a training time, of the repeats that have both numbers of epochs, without disturbed runs."""
    both = [one["epochs"] * parts for one in (fewest, result)]
    timed = runs[(runs["status"] == "ok") & (runs["disturbed"] == "") & runs["epochs"].isin(both)]
    seconds = timed.pivot_table("training_seconds", "repeat", "epochs").reindex(columns=both).dropna()
    if len(seconds):
        own = {"epochs": result["epochs"], "run_ids": list(timed["id"][timed["repeat"].isin(seconds.index)])}
        published, ratios = result["training_seconds"] / fewest["training_seconds"], seconds[both[1]] / seconds[both[0]]
        yield _row(own, TIME_RATIO, published, ratios.tolist())


def _explanation(row: Mapping, gaps: pd.DataFrame, firsts: Mapping[tuple, Mapping]) -> str:
    """The reason of a row: the nearest experiment that explains its number and has other settings, with these.

    gaps: the largest gap and width of each number and experiment. firsts: a record of each experiment and recipe.
    """
    others = gaps[(gaps[OF_NUMBER] == [row[key] for key in OF_NUMBER]).all(axis=1)]
    is_closer = (others["gap"] <= row["gap"] / MUCH_CLOSER) & (others["width"].clip(lower=row["width"]) < row["gap"])
    closer = others[is_closer].sort_values(["gap", "experiment"])["experiment"]
    own, *of_others = (firsts[name, row["recipe"]] for name in (row["experiment"], *closer))
    meant = effective_settings(own["inputs"]["recipe"], own["settings"])
    for other in of_others:
        its = effective_settings(other["inputs"]["recipe"], other["settings"])
        if differing := [f"{key}: {its.get(key)}" for key in differing_settings(meant, its) if key != "seed"]:
            return ", ".join([other["run"]["experiment"], *differing])
    return ""
