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
from trainmark.tables.tables import GROUP, by_trainer, groups
from trainmark.trainer import TRAINER

REACHED = ("test_loss", "test_accuracy", "train_loss", "train_accuracy")
"""The published metrics that do not depend on the hardware."""

TIME_RATIO = "training_time_ratio"
"""The training time as a multiple of that of the source's fewest epochs."""

NUMBERS = ("published", "smallest", "median", "largest")
"""The columns of numbers that may be missing."""

COLUMNS = [*GROUP, *TRAINER, "source", "epochs", "metric", *NUMBERS, "runs", "within", "explained_by", "run_ids"]

MUCH_CLOSER = 10.0
"""Another experiment explains a number that is so many times as far from our range as from its own, and farther from
ours than either range is wide. Otherwise chance would explain a narrow miss, and a wide range any number.
"""

OF_NUMBER = ["recipe", "dataset", "source", "epochs", "metric"]
"""The columns that identify a published number."""


def published_table(
    runs: pd.DataFrame, curves: pd.DataFrame, records: Iterable[Mapping], references: Sequence[Mapping]
) -> pd.DataFrame:
    """Make the table of published results: a row for each published number, experiment and trainer.

    With `optimizer_restarts`, the epochs of the source are those of a part of a run between two restarts, and the
    number of a run is the median of those at the ends of its parts. Columns are in docs/columns.md.
    """
    firsts = {(one["run"]["experiment"], one["run"]["recipe"]): one for one in reversed(list(records))}
    after_epochs = curves[curves["part"] != WITHIN_EPOCH].set_index(["id", "epoch"])
    rows = []
    for group, of_group in groups(runs, GROUP):
        own = references_of(group, references)
        of_epochs = after_epochs[after_epochs.index.isin(of_group["id"], level="id")]
        reached = {metric: of_epochs[metric][np.isfinite(of_epochs[metric])].to_dict() for metric in REACHED}
        for (trainer, of_trainer), reference in ((pair, one) for one in own for pair in by_trainer(of_group)):
            named = dict(zip([*GROUP, *TRAINER], [*group, *trainer], strict=True)) | {"source": reference["name"]}
            rows += [named | row for row in _rows(reference, of_trainer, reached)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(explained_by=list(_explanations(table, firsts)))


def counts_within(table: pd.DataFrame) -> list[str]:
    """For each source of a group, how many of its numbers lie within the range of our runs, in words."""
    lines = []
    for (source,), of_source in groups(table[table["within"] != ""], ["source"]):
        numbers = len(of_source[OF_NUMBER].drop_duplicates())
        share = ((of_source["runs"] - 1) / (of_source["runs"] + 1)).mean()  # the complement of 2 / (n + 1)
        counts = [f"{(own['within'] == 'yes').sum()} ({one.name})" for one, own in by_trainer(of_source)]
        lines.append(
            f"{source}: within the range of our runs are, of {counted(numbers, 'published number')}, {listed(counts)}; "
            f"one more run of the same training would have {share * numbers:.1f} on average"
        )
    return lines


def _rows(reference: Mapping, runs: pd.DataFrame, reached: Mapping[str, Mapping]) -> Iterator[dict]:
    """Yield the rows of one source and trainer."""
    parts = int(runs["optimizer_restarts"].iloc[0]) + 1
    timed = sorted((one for one in reference["results"] if "training_seconds" in one), key=itemgetter("epochs"))
    for result in reference["results"]:
        epochs = result["epochs"]
        of_epochs = _runs_of(runs, epochs, parts)
        places = [[(run_id, epochs * part) for part in range(1, parts + 1)] for run_id in of_epochs["id"]]
        for metric in (name for name in REACHED if name in result and reached[name]):
            values = [float(np.median([reached[metric].get(place, nan) for place in of_run])) for of_run in places]
            if values:
                row = _row(epochs, metric, result[metric], of_epochs["id"], values)
                half = 0.5 * 10 ** -reference["decimals"]
                within = row["smallest"] <= row["published"] + half and row["published"] - half <= row["largest"]
                is_within = any(map(isnan, values)) if isnan(row["published"]) else within
                yield row | {"within": "yes" if is_within else "no"}
        if result in timed[1:]:
            yield from _time_ratio(timed[0], result, runs, parts)


def _runs_of(runs: pd.DataFrame, epochs: int, parts: int) -> pd.DataFrame:
    """The run of each repeat that is compared with so many epochs of the source."""
    lengths = runs["epochs"] // parts
    fitting = runs[(runs["status"] != "out_of_memory") & (lengths == epochs if parts > 1 else lengths >= epochs)]
    return fitting.sort_values(["repeat", "epochs"]).drop_duplicates("repeat")


def _row(epochs: int, metric: str, published: float, ids: Iterable[str], values: Sequence[float]) -> dict:
    """A row. values: of our runs; NaN of one that diverged before it had these epochs."""
    finite = [value for value in values if not isnan(value)] or [nan]
    ours = {"smallest": min(finite), "median": float(np.median(values)), "largest": max(finite), "runs": len(values)}
    return {"epochs": epochs, "metric": metric, "published": published, **ours, "run_ids": " ".join(ids)}


def _time_ratio(fewest: Mapping, result: Mapping, runs: pd.DataFrame, parts: int) -> Iterator[dict]:
    """Yield the row of a training time, of the repeats that have both numbers of epochs, without disturbed runs."""
    timed = runs[(runs["status"] == "ok") & (runs["disturbed"] == "")]
    seconds = timed.pivot_table(index="repeat", columns="epochs", values="training_seconds")
    both = [one["epochs"] * parts for one in (fewest, result)]
    if {*both} <= {*seconds.columns} and len(pairs := seconds[both].dropna()):
        ids = timed["id"][timed["repeat"].isin(pairs.index) & timed["epochs"].isin(both)]
        published = result["training_seconds"] / fewest["training_seconds"]
        ratios = (pairs[both[1]] / pairs[both[0]]).tolist()
        yield _row(result["epochs"], TIME_RATIO, published, ids, ratios) | {"within": ""}


def _explanations(table: pd.DataFrame, firsts: Mapping[tuple, Mapping]) -> Iterator[str]:
    """Yield `explained_by` of each row. firsts: a record of each experiment and recipe."""
    outside = [table["smallest"] - table["published"], table["published"] - table["largest"]]
    gaps = pd.concat(outside, axis=1).max(axis=1).where(table["within"] == "no", 0.0)
    widths = (table["largest"] - table["smallest"]).where(table["runs"] > 1, inf)
    of_experiments: dict[tuple, dict[str, tuple[float, float]]] = {}
    for (*number, experiment), own in groups(table.assign(gap=gaps, width=widths), [*OF_NUMBER, "experiment"]):
        of_experiments.setdefault(tuple(number), {})[experiment] = (own["gap"].max(), own["width"].max())
    for row, gap, width in zip(table.to_dict("records"), gaps, widths, strict=True):
        others = of_experiments[tuple(row[key] for key in OF_NUMBER)].items()
        closer = sorted(
            (far, name) for name, (far, wide) in others if far <= gap / MUCH_CLOSER and max(width, wide) < gap
        )
        first = firsts[row["experiment"], row["recipe"]]
        texts = (_difference(first, firsts[name, row["recipe"]]) for _, name in closer)
        yield next(filter(None, texts), "")


def _difference(first: Mapping, second: Mapping) -> str:
    """The experiment of the second record, and the settings in which it differs from the first; "" if in none."""
    meant = [effective_settings(one["inputs"]["recipe"], one["settings"]) for one in (first, second)]
    differing = [f"{key}: {meant[1].get(key)}" for key in differing_settings(*meant) if key != "seed"]
    return ", ".join([second["run"]["experiment"], *differing]) if differing else ""
