"""The answers of the first screen: sentences that compare the training times of trainers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from trainmark.report.cells import Cell, break_even_cells, comparison_cells
from trainmark.report.standings import VERDICTS, Standing
from trainmark.tables.comparability import WITHHELD
from trainmark.tables.comparisons import COMPARED, TOO_FEW
from trainmark.tables.formatting import counted, listed
from trainmark.tables.results import Results
from trainmark.tables.tables import rows_of, select_group
from trainmark.tables.verdicts import reasons_beside_verdict, why_not_distinguishable

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


def answers(results: Results, found: Sequence[Standing]) -> Iterator[Answer]:
    """Yield a sentence for each standing of at least two trainers, on the one that takes the least time.

    If it is the baseline, the sentence is on the next one; of variants, it is on the one with the lowest test loss.
    """
    of_time = [standing for standing in found if standing.metric == COMPARED[0]]
    for standing in of_time:
        others = [place.trainer for place in (*standing.ranked, *standing.places) if place.row is not None]
        if not others:
            continue
        table = select_group((results.of_variants if standing.of_variants else results).comparisons, standing.group)
        table = table[table["first"] == standing.baseline].sort_values("epochs", ascending=False)
        experiment, recipe, dataset = standing.group
        lead = f"{experiment}: on" if len(of_time) > 1 else "On"
        lead, subject = f"{lead} {dataset} ({recipe}), ", others[0]
        ranked, end = [place.trainer for place in standing.ranked], ""
        if standing.of_variants:
            lowest = _lowest_loss(table)
            subject = lowest or subject
            lead += f"{lowest} has the lowest test loss: it takes " if lowest else f"{subject} takes "
        elif len(ranked) > 2:
            of_ranked = " ranked" if len(ranked) < len(standing.places) else ""
            lead += f"{ranked[0]} takes the least time of {len(ranked)}{of_ranked} trainers: "
            lead += "" if ranked[0] == subject else f"{subject}, the next, takes "
        else:
            lead += f"{subject} takes "
        pair = table[table["second"] == subject]
        if standing.of_variants:
            end = f". {pair['reason'].iloc[0]}"
        elif standing.refused:
            end = f". Not ranked against {standing.baseline}: {listed(place.trainer for place in standing.refused)}"
        yield _answer(results, standing, lead, pair[pair["metric"] == COMPARED[0]], end)


def _lowest_loss(table: pd.DataFrame) -> str | None:
    """The variant with the lowest test loss of those whose loss is lower than that of the first one; or None."""
    longest = table[(table["metric"] == "test_loss") & (table["epochs"] == table["epochs"].max())]
    lower = longest[longest["verdict"] == "lower"].sort_values("ratio")
    return str(lower["second"].iloc[0]) if len(lower) else None


def _answer(results: Results, standing: Standing, lead: str, pair: pd.DataFrame, end: str) -> Answer:
    """The answer from the comparisons of two trainers: what is known, where it turns, and what is not known.

    lead, end: its first and its last words. pair: their training times, largest number of epochs first.
    """
    rows, numbers = rows_of(pair), results.numbers
    first, second = standing.baseline, rows[0]["second"]
    whose = f" the training time of {first}"
    by_verdict: dict[str, list[dict]] = {}
    for row in rows:
        by_verdict.setdefault(row["verdict"], []).append(row)
    known = [same for verdict, same in by_verdict.items() if verdict in VERDICTS]
    sentence: list[str | Cell] = [lead]
    for place, same in enumerate(known):
        joint = " and " if place == len(known) - 1 else ", "
        sentence += [joint if place else "", *_clause(same, "" if place else whose, numbers)]
    if {"faster", "slower"} <= by_verdict.keys():
        sentence += _turning_point(results, standing, second)
    if not known and rows[0]["verdict"].startswith(TOO_FEW):
        sentence += _ratio(rows[0], whose, numbers)
    elif not known:
        sentence = [f"{lead.partition(', ')[0]}, {second} and {first} are not ranked"]
    sentence += _undecided(rows, by_verdict, numbers)
    compared = [
        {key: row[key] for key in ("epochs", "pairs", "ratio", "low", "high", "verdict")}
        | {"runs": [int(numbers[run_id]) for run_id in row["run_ids"].split()]}
        for row in rows
    ]
    return Answer(standing.group, first, second, (*sentence, end, "."), compared)


def _ratio(row: Mapping, whose: str, numbers: Mapping[str, int]) -> Sentence:
    return (comparison_cells(row, numbers)["ratio"], f" times{whose} at {counted(row['epochs'], 'epoch')}")


def _clause(rows: list[dict], whose: str, numbers: Mapping[str, int]) -> Sentence:
    """The ratio of the first of these comparisons, with its interval and verdict; the others have the same verdict."""
    row, *others = rows
    cells, note = comparison_cells(row, numbers), why_not_distinguishable(row)
    as_at = f", as at {listed(other['epochs'] for other in reversed(others))}" if others else ""
    verdict = (cells["verdict"], as_at, f"; {note}" if note else "", ")")
    return (*_ratio(row, whose, numbers), " (95 % interval ", cells["low"], " to ", cells["high"], ": ", *verdict)


def _turning_point(results: Results, standing: Standing, second: str) -> Sentence:
    """Says from how many epochs on one of the two is faster; () if it is unknown or beyond those of the runs."""
    table = select_group(results.break_even, standing.group)
    both = (standing.baseline, second)
    table = table[(table["metric"] == COMPARED[0]) & table["first"].isin(both) & table["second"].isin(both)]
    epochs = select_group(results.runs, standing.group)["epochs"]
    rows = rows_of(table)
    if not rows or rows[0]["low"] is None or not epochs.min() <= rows[0]["epochs"] <= epochs.max():
        return ()
    at, low, high = break_even_cells(rows[0], results.numbers)
    return (f"; {rows[0]['faster_after']} is faster from ", at, " epochs on (", low, " to ", high, ")")


def _undecided(rows: list[dict], by_verdict: Mapping[str, list[dict]], numbers: Mapping[str, int]) -> Sentence:
    """The end of the sentence that says why there is no verdict, at which numbers of epochs; empty if there are all."""
    pieces: Sentence = ()
    for verdict, same in by_verdict.items():
        if verdict not in VERDICTS:
            where, row = sorted(other["epochs"] for other in same), same[-1]
            at = f" at {listed(where)} epoch{'s' if where != [1] else ''}" if len(where) < len(rows) else ""
            why = comparison_cells(row, numbers)["verdict"]
            lost = f" ({reasons})" if not row["pairs"] and (reasons := reasons_beside_verdict(row)) else ""
            pieces += (f"; no verdict{at}: ", replace(why, text=why.text.removeprefix(WITHHELD) + lost))
    return pieces
