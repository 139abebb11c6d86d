"""The answers of the first screen: sentences that compare the training times of trainers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.report.cells import Cell, break_even_cells, comparison_cells
from trainmark.report.standings import OF_VARIANTS, VERDICTS, Standing
from trainmark.tables.comparisons import COMPARED, TOO_FEW
from trainmark.tables.formatting import counted, listed
from trainmark.tables.results import Results
from trainmark.tables.tables import rows_of, select_group

MOST_ANSWERS = 3

Sentence = tuple[str | Cell, ...]
"""A sentence in pieces; each of its numbers is a cell, which knows the runs that it comes from."""


@dataclass(frozen=True)
class Answer:
    """A sentence that compares the training times of two trainers, and the comparisons that it is made of.

    group: experiment, recipe and dataset.
    """

    group: tuple[str, str, str]
    first: str
    second: str
    sentence: Sentence
    comparisons: list[dict]


def answers(results: Results, found: Sequence[Standing]) -> list[Answer]:
    """Sentences on the fastest trainer of a section, the next one, and where trainers cross: at most MOST_ANSWERS.

    Of several sections, each has only the first of these.
    """
    of_time = [standing for standing in found if standing.metric == COMPARED[0]]
    tables = [results.of_variants if standing.of_variants else results for standing in of_time]
    of_each = [list(_Answering(*both).answers()) for both in zip(of_time, tables, strict=True)]
    if len(of_each) == 1:
        return of_each[0][:MOST_ANSWERS]
    return [_within(told[0].group[0], told[0]) for told in of_each if told]


def _within(experiment: str, answer: Answer) -> Answer:
    """An answer that begins with the name of its experiment."""
    first, *rest = answer.sentence
    return replace(answer, sentence=(f"{experiment}: o{str(first)[1:]}", *rest))


class _Answering:
    """Makes the sentences on one section."""

    def __init__(self, standing: Standing, results: Results) -> None:
        self.standing = standing
        table = select_group(results.comparisons, standing.group).sort_values("epochs", ascending=False)
        self.comparisons, self.compared = table, table[table["metric"] == COMPARED[0]]
        self.parity = select_group(results.parity, standing.group)
        self.break_even = select_group(results.break_even, standing.group)
        self.numbers = results.numbers

    def answers(self) -> Iterator[Answer]:
        """Yield the sentences; none if no two trainers have a run in common."""
        standing = self.standing
        ranked = [place.trainer for place in standing.ranked]
        others = [place.trainer for place in (*standing.ranked, *standing.places) if place.row is not None]
        if not others:
            return
        baseline, subject, fastest = standing.baseline, others[0], ranked[0]
        lead = f"On {standing.group[2]} ({standing.group[1]}), "
        what = "variants" if standing.of_variants else "trainers"
        lowest = self._lowest_loss() if standing.of_variants and len(standing.places) > 2 else None
        if lowest:
            lead += f"{lowest} has the lowest test loss of {len(standing.places)} variants; it takes "
        elif len(ranked) > 2:
            of_ranked = " ranked" if len(ranked) < len(standing.places) else ""
            lead += f"{fastest} takes the least time of {len(ranked)}{of_ranked} {what}: "
            lead += "" if fastest == subject else f"{subject}, the next, takes "
        else:
            lead += f"{subject} takes "
        if standing.of_variants:
            subject = lowest or subject
            yield self._answer(lead, baseline, subject, self._on_results(baseline, subject))
            return
        refused = listed(place.trainer for place in standing.refused) if standing.refused else ""
        yield self._answer(lead, baseline, subject, (f". Not ranked against {baseline}: {refused}",) if refused else ())
        if fastest == subject and len(ranked) > 2 and ranked[1] != baseline:
            yield self._on_the_next(fastest, ranked[1])
        if len(ranked) > 2:
            yield from self._on_a_crossing(fastest)

    def _on_the_next(self, fastest: str, following: str) -> Answer:
        """The sentence on the trainer after the fastest, against the fastest if the two are compared."""
        pair = self._pair(fastest, following)
        refused = self._refused(fastest, following)
        if refused or not pair:
            end = f"; it differs from {fastest} in more than one part, so that the two are not compared"
            end = f"; it is not ranked against {fastest}: {refused}" if refused else end
            return self._answer(f"Next is {following} with ", self.standing.baseline, following, (end,))
        first, second = pair[0]["first"], pair[0]["second"]
        return self._answer(f"Next is {following}: {'it' if second == following else second} takes ", first, second)

    def _lowest_loss(self) -> str | None:
        """The variant with the lowest test loss of those whose loss is lower than that of the first one; or None."""
        table = self.comparisons[self.comparisons["metric"] == "test_loss"]
        longest = table[(table["epochs"] == table["epochs"].max()) & (table["first"] == self.standing.baseline)]
        lower = longest[longest["verdict"] == "lower"].sort_values("ratio")
        return str(lower["second"].iloc[0]) if len(lower) else None

    def _on_results(self, *trainers: str) -> Sentence:
        """The end of a sentence on two variants: their losses and accuracies at the largest number of epochs."""
        pieces: Sentence = ()
        pair = _between(self.comparisons, trainers)
        for metric, words in list(OF_VARIANTS.items())[1:]:
            row = rows_of(pair[pair["metric"] == metric])[0]
            cells = comparison_cells(row, self.numbers)
            shown: Sentence = (f"; its {words} is ", cells["ratio"], " times")
            if row["low"] is not None:
                shown += (" (", cells["low"], " to ", cells["high"], ": ", cells["verdict"], _by_chance(row), ")")
            pieces += shown if row["ratio"] is not None else (f"; {words}: ", cells["verdict"])
        return (*pieces, f". {rows_of(pair)[0]['reason']}")

    def _on_a_crossing(self, fastest: str) -> Iterator[Answer]:
        """The sentence on the trainer that takes the least time with the fewest epochs, if it is another one."""
        fewest = self.compared[self.compared["epochs"] == self.compared["epochs"].min()]
        of_baseline = fewest[(fewest["first"] == self.standing.baseline) & fewest["verdict"].isin(VERDICTS)]
        ratios = {self.standing.baseline: 1.0} | dict(zip(of_baseline["second"], of_baseline["ratio"], strict=True))
        quickest = min(ratios, key=ratios.__getitem__)
        crossing = self._turning_point(quickest, fastest)
        if crossing:
            at = f"With {counted(int(fewest['epochs'].iloc[0]), 'epoch')}, {quickest} takes the least time"
            yield Answer(self.standing.group, quickest, fastest, (at, *crossing, "."), [])

    def _refused(self, *trainers: str) -> str:
        """Why two trainers must not be ranked; "" if they may."""
        pair = _between(self.parity, trainers)
        return " ".join(pair["reason"][pair["parity"].isin(REFUSED)])

    def _pair(self, *trainers: str) -> list[dict]:
        """The comparisons of two trainers, largest number of epochs first."""
        return rows_of(_between(self.compared, trainers))

    def _turning_point(self, *trainers: str) -> Sentence:
        """The end of a sentence on two trainers that says from how many epochs on one is faster; () if it is unknown.

        A break-even beyond the numbers of epochs of the runs is not told.
        """
        rows = rows_of(_between(self.break_even[self.break_even["metric"] == COMPARED[0]], trainers))
        low, high = self.compared["epochs"].min(), self.compared["epochs"].max()
        if not rows or rows[0]["low"] is None or not low <= rows[0]["epochs"] <= high:
            return ()
        epochs, *ends = break_even_cells(rows[0], self.numbers)
        interval = (" epochs on (", ends[0], " to ", ends[1], ")")
        return (f"; {rows[0]['faster_after']} is faster from ", epochs, *interval)

    def _answer(self, lead: str, first: str, second: str, end: Sentence = ()) -> Answer:
        """The answer from the comparisons of two trainers: what is known, where it turns, and what is not known."""
        rows = self._pair(first, second)
        known = [row for row in rows if row["verdict"] in VERDICTS]
        sentence: list[str | Cell] = [lead]
        for place, same in enumerate(clauses := _clauses(known)):
            whose = f" the training time of {first}" if place == 0 else ""
            sentence += [" and " if 0 < place == len(clauses) - 1 else ", " if place else ""]
            sentence += _clause(same, whose, self.numbers)
        if {"faster", "slower"} <= {row["verdict"] for row in known}:
            sentence += self._turning_point(first, second)
        if not known and rows[0]["verdict"].startswith(TOO_FEW):
            sentence += _ratio(comparison_cells(rows[0], self.numbers), rows[0], f" the training time of {first}")
        elif not known:
            sentence = [f"{lead.partition(', ')[0]}, {second} and {first} are not ranked"]
        compared = [
            {key: row[key] for key in ("epochs", "pairs", "ratio", "low", "high", "verdict")}
            | {"runs": [int(self.numbers[run_id]) for run_id in row["run_ids"].split()]}
            for row in rows
        ]
        pieces = (*sentence, *_undecided(rows, self.numbers), *end, ".")
        return Answer(self.standing.group, first, second, pieces, compared)


def _between(table: pd.DataFrame, trainers: Sequence[str]) -> pd.DataFrame:
    """The rows of a table of pairs that are on these two trainers, in either order."""
    return table[table["first"].isin(trainers) & table["second"].isin(trainers)]


def _clauses(rows: list[dict]) -> list[list[dict]]:
    """Comparisons with a verdict by clause: those of one verdict share one; largest number of epochs first."""
    by_verdict: dict[str, list[dict]] = {}
    for row in rows:
        by_verdict.setdefault(row["verdict"], []).append(row)
    return list(by_verdict.values())


def _ratio(cells: Mapping[str, Cell], row: Mapping, whose: str) -> Sentence:
    return (cells["ratio"], f" times{whose} at {counted(row['epochs'], 'epoch')}")


def _clause(rows: list[dict], whose: str, numbers: Mapping[str, int]) -> Sentence:
    """The ratio of the first of these comparisons, with its interval and verdict; the others have the same verdict."""
    row, *others = rows
    cells = comparison_cells(row, numbers)
    as_at = f", as at {listed(other['epochs'] for other in reversed(others))}" if others else ""
    start = " (95 % interval " if whose else " ("
    interval = (start, cells["low"], " to ", cells["high"], ": ", cells["verdict"], as_at, _by_chance(row), ")")
    return (*_ratio(cells, row, whose), *interval)


def _by_chance(row: Mapping) -> str:
    """Why a verdict is "not distinguishable" although its interval does not contain 1; "" for any other."""
    outside = row["verdict"] == VERDICTS[-1] and not row["low"] <= 1 <= row["high"]
    return f", because among {row['compared']:.0f} comparisons such an interval occurs by chance" if outside else ""


def _undecided(rows: list[dict], numbers: Mapping[str, int]) -> Sentence:
    """The end of the sentence that says why there is no verdict, at which numbers of epochs; empty if there are all."""
    reasons = {row["verdict"]: row for row in rows if row["verdict"] not in VERDICTS}
    pieces: Sentence = ()
    for verdict, row in reasons.items():
        where = sorted(other["epochs"] for other in rows if other["verdict"] == verdict)
        at = f" at {listed(where)} epoch{'s' if where != [1] else ''}" if len(where) < len(rows) else ""
        why = comparison_cells(row, numbers)["verdict"]
        lost = f" ({row['left_out_reasons']})" if not row["pairs"] and row["left_out"] else ""
        pieces += (f"; no verdict{at}: ", replace(why, text=why.text.removeprefix("withheld: ") + lost))
    return pieces
