"""How each trainer, or each variant, of a section stands against the baseline.

A standing is that at the largest number of epochs that has a ratio.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.report.cells import Cell, comparison_cells
from trainmark.tables.comparisons import COMPARED, INTERVAL, baselines_of
from trainmark.tables.results import Results
from trainmark.tables.tables import by_trainer, rows_of, select_group
from trainmark.tables.variants import baseline_of, by_variants, parts_of
from trainmark.tables.verdicts import why_not_distinguishable

VERDICTS = ("faster", "slower", "lower", "higher", "not distinguishable")

OF_VARIANTS = {COMPARED[0]: "training time", "test_loss": "test loss", "test_accuracy": "test accuracy"}
"""The metrics by which variants stand, in words."""

MARGIN = 0.04
"""Part of a bar's width that is left free at each of its ends."""


@dataclass(frozen=True)
class Place:
    """A trainer in a standing.

    trainer: its name.
    row: its row in the table of comparisons, whose first trainer is the baseline; None for the baseline, and for a
        trainer without a run in common with it.
    cells: ratio, low, high and verdict.
    word: the verdict; "baseline"; or why there is no verdict.
    note: what a reader of the word must know; "" for nothing.
    marks: where ratio, low and high are in a bar, in percent of its width, on a logarithmic scale; those there are.
    is_ranked: whether it has a verdict, or is the baseline.
    """

    trainer: str
    row: Mapping | None
    cells: Mapping[str, Cell]
    word: str
    note: str
    marks: Mapping[str, float]
    is_ranked: bool


@dataclass(frozen=True)
class Standing:
    """The trainers of a section, fastest first; then those without a verdict.

    group: experiment, recipe and dataset. metric: what is compared. of_variants: whether the trainers are variants of
    one trainer. one: where the ratio 1 is in a bar, in percent of its width.
    """

    group: tuple[str, str, str]
    metric: str
    of_variants: bool
    baseline: str
    epochs: int
    places: list[Place]
    one: float

    @property
    def ranked(self) -> list[Place]:
        """The trainers that have a verdict, and the baseline."""
        return [place for place in self.places if place.is_ranked]

    @property
    def refused(self) -> list[Place]:
        """The trainers that must not be ranked against the baseline."""
        return [place for place in self.places if place.row is not None and place.row["parity"] in REFUSED]


def standings(results: Results, plan: Mapping) -> Iterator[Standing]:
    """Yield the standing of each section of at least two trainers that is no command's.

    Variants have one for each trainer and each of OF_VARIANTS, and grids one for each factor.
    """
    baselines = baselines_of(results.runs, plan["config"]["experiments"])
    for of_group, group, runs in results.groups():
        if of_group is not results:
            for _, of_trainer in by_variants(runs):
                for part in parts_of(of_trainer, with_cells=False):
                    first = baseline_of(part).name
                    yield from (_standing(of_group, group, part, first, metric) for metric in OF_VARIANTS)
        elif group in baselines and len(list(by_trainer(runs))) > 1:
            yield _standing(results, group, runs, baselines[group], COMPARED[0])


def _standing(results: Results, group: tuple, runs: pd.DataFrame, baseline: str, metric: str) -> Standing:
    """The standing of the trainers of these runs."""
    comparisons = select_group(results.comparisons, group)
    of_metric = comparisons[(comparisons["metric"] == metric) & (comparisons["first"] == baseline)]
    measured = of_metric["epochs"][of_metric["ratio"].notna()]
    epochs = int((measured if len(measured) else runs["epochs"]).max())
    rows = {row["second"]: row for row in rows_of(of_metric[of_metric["epochs"] == epochs])}
    values = [1.0, *(row[name] for row in rows.values() for name in INTERVAL if row[name])]
    least, most = log(min(values)), log(max(values))

    def mark(value: float) -> float:
        share = (log(value) - least) / (most - least) if most > least else 0.5
        return round(100 * (MARGIN + (1 - 2 * MARGIN) * share), 1)

    def place(name: str) -> Place:
        row = rows.get(name)
        if name == baseline:
            return Place(name, None, {}, "baseline", "", {"ratio": mark(1.0)}, True)
        if row is None:
            return Place(name, None, {}, "no pair of runs", "", {}, False)
        marks = {key: mark(row[key]) for key in INTERVAL if row[key]}
        return Place(name, row, comparison_cells(row, results.numbers), *_word(row), marks, row["verdict"] in VERDICTS)

    places = [place(trainer.name) for trainer, _ in by_trainer(runs)]
    places.sort(key=lambda one: (not one.is_ranked, one.marks.get("ratio", 100.0)))
    return Standing(group, metric, "variant" in runs, baseline, epochs, places, mark(1.0))


def _word(row: Mapping) -> tuple[str, str]:
    """(the verdict or why there is none, its note) of a comparison. The table of comparisons has longer notes."""
    if row["parity"] in REFUSED:
        return "not ranked", row["reason"]
    note = row["left_out_reasons"] if row["verdict"] in ("no pair", "not measured") else why_not_distinguishable(row)
    return row["verdict"], note
