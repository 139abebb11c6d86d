"""How each trainer, or each variant, of a section stands against the baseline, and the answers that follow from it.

A standing is that at the largest number of epochs that has a ratio. sentences.j2 prints the answers.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import log
from typing import NamedTuple

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.tables.formatting import NOT_MEASURED
from trainmark.tables.frames import ENDS, by_trainer, rows_of, select_trainer
from trainmark.tables.metrics import VERDICTS
from trainmark.tables.sections import Section
from trainmark.tables.variants import baseline_of, by_variants, parts_of
from trainmark.tables.verdicts import short_note
from trainmark.trainer import Trainer

OF_VARIANTS = {"training_seconds": "training time", "test_loss": "test loss", "test_accuracy": "test accuracy"}
"""The metrics by which variants stand, in words."""

MARGIN = 0.04
"""Part of a bar's width that is left free at each of its ends."""


class Place(NamedTuple):
    """A trainer in a standing.

    row: its ratio to the baseline, a row of numbers; None for the baseline, and for one with no run in common with it.
    word: the verdict; "baseline"; or why there is no verdict. note: what a reader of it must know; "" for nothing.
    marks: where 1, the ratio and its ends are in a bar with a logarithmic scale, in percent of its width.
    """

    trainer: str
    row: Mapping | None
    word: str
    note: str
    marks: Mapping[str, float]

    @property
    def is_ranked(self) -> bool:
        """Whether it has a verdict, or is the baseline."""
        return self.word in {"baseline", *VERDICTS}


class Standing(NamedTuple):
    """The trainers of a section by a metric, fastest first; then those without a verdict."""

    section: Section
    metric: str
    baseline: str
    epochs: int
    places: list[Place]


class Answer(NamedTuple):
    """What is known of the training times of a trainer, the second, beside those of the baseline.

    rows: their ratios, that of the largest number of epochs first. has_lowest_loss: whether the second is a variant
    that is chosen for its test loss. is_named: whether the experiment must be named.
    """

    standing: Standing
    second: str
    rows: list[dict]
    has_lowest_loss: bool
    is_named: bool

    def by_verdict(self, *, known: bool) -> list[list[dict]]:
        """The ratios that have a verdict, or those that have none; those with one verdict together."""
        found: dict[str, list[dict]] = {}
        for row in self.rows:
            if (row["verdict"] in VERDICTS) == known:
                found.setdefault(row["verdict"], []).append(row)
        return [*found.values()]

    @property
    def turning(self) -> dict | None:
        """From how many epochs on one is faster, of opposite verdicts; None if unknown or beyond those of the runs."""
        section, both = self.standing.section, {self.standing.baseline, self.second}
        epochs, is_opposite = section.runs["epochs"], {"faster", "slower"} <= {row["verdict"] for row in self.rows}
        for row in rows_of(section.rows("break_even", "training_seconds")) if is_opposite else ():
            is_known = row["low"] is not None and epochs.min() <= row["value"] <= epochs.max()
            if is_known and {Trainer.of(row).name, row["compared_with"]} == both:
                return row
        return None


def standings(section: Section) -> Iterator[Standing]:
    """Yield the standing of a section of at least two trainers that is no command's.

    Variants have one for each trainer and each of OF_VARIANTS, and grids one for each factor.
    """
    if section.has_variants:
        for _, of_trainer in by_variants(section.runs):
            for part in parts_of(of_trainer, with_cells=False):
                first = baseline_of(part).name
                yield from (_standing(section, part, first, metric) for metric in OF_VARIANTS)
    elif section.baseline and len(list(by_trainer(section.runs))) > 1:
        yield _standing(section, section.runs, section.baseline, "training_seconds")


def _standing(section: Section, runs: pd.DataFrame, baseline: str, metric: str) -> Standing:
    """The standing of the trainers of these runs."""
    ratios = section.rows("ratio")
    ratios = ratios[(ratios["metric"] == metric) & (ratios["compared_with"] == baseline)]
    measured = ratios["epochs"][ratios["value"].notna()]
    epochs = int((measured if len(measured) else runs["epochs"]).max())
    rows = {trainer.name: rows_of(own)[0] for trainer, own in by_trainer(ratios[ratios["epochs"] == epochs])}
    values = [1.0, *(row[end] for row in rows.values() for end in ENDS if row[end])]
    least, most = log(min(values)), log(max(values))

    def mark(value: float) -> float:
        share = (log(value) - least) / (most - least) if most > least else 0.5
        return round(100 * (MARGIN + (1 - 2 * MARGIN) * share), 1)

    def place(name: str) -> Place:
        row = rows.get(name)
        marked = row or ({"value": 1.0} if name == baseline else {})
        marks = {"one": mark(1.0)} | {end: mark(marked[end]) for end in ENDS if marked.get(end)}
        return Place(name, row, *(_word(row) if row else ("baseline" if marked else "no pair of runs", "")), marks)

    places = [place(trainer.name) for trainer, _ in by_trainer(runs)]
    places.sort(key=lambda one: (not one.is_ranked, one.marks.get("value", 100.0)))
    return Standing(section, metric, baseline, epochs, places)


def _word(row: Mapping) -> tuple[str, str]:
    """(the verdict or why there is none, its note) of a ratio. The table of comparisons has longer notes."""
    if row["parity"] in REFUSED:
        return "not ranked", row["reason"]
    note = row["left_out_reasons"] if row["verdict"] in ("no pair", NOT_MEASURED) else short_note(row)
    return row["verdict"], note


def answers(found: Iterable[Standing]) -> Iterator[Answer]:
    """Yield an answer for each standing of at least two trainers, on the one that takes the least time.

    If it is the baseline, the answer is on the next one; of variants, it is on the one with the lowest test loss.
    """
    of_time = [standing for standing in found if standing.metric == "training_seconds"]
    for standing in of_time:
        ratios = standing.section.rows("ratio")
        ratios = ratios[ratios["compared_with"] == standing.baseline].sort_values("epochs", ascending=False)
        lowest = _lowest_loss(ratios) if standing.section.has_variants else None
        if subject := next((place.row for place in standing.places if place.row), None):
            trainer = Trainer.of(lowest or subject)
            rows = rows_of(select_trainer(ratios[ratios["metric"] == "training_seconds"], trainer))
            yield Answer(standing, trainer.name, rows, bool(lowest), len(of_time) > 1)


def _lowest_loss(ratios: pd.DataFrame) -> dict | None:
    """The ratio of the variant with the lowest test loss, if its loss is lower than that of the first one; or None."""
    longest = ratios[(ratios["metric"] == "test_loss") & (ratios["epochs"] == ratios["epochs"].max())]
    lower = longest[longest["verdict"] == "lower"].sort_values("value")
    return rows_of(lower)[0] if len(lower) else None
