"""The first screen of the report as plain data: what was compared, on which machine, the answers, and the warnings.

The page and results/summary.json are made of the same `FirstScreen`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from trainmark.plan.run import group_title
from trainmark.recipes.command import DATASET
from trainmark.report.cells import Cell, break_even_cells, comparison_cells
from trainmark.report.warnings import Warned, warnings
from trainmark.tables.comparisons import COMPARED, SIDES
from trainmark.tables.formatting import CENSORED
from trainmark.tables.results import Results
from trainmark.tables.tables import GROUP, groups, rows_of, shown_of_trainers

MOST_ANSWERS = 3

VERDICTS = ("faster", "slower", "not distinguishable")

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


@dataclass(frozen=True)
class FirstScreen:
    """What the first screen says.

    title: the trainers that were compared.
    compared: what each section compares, with a sentence.
    machine: a sentence.
    answers: at most MOST_ANSWERS; no_answer says why there is none.
    counts: the number of runs, in total, by status, and of those missing.
    """

    title: str
    compared: list[dict]
    machine: str
    answers: list[Answer]
    no_answer: str
    warnings: list[Warned]
    counts: dict[str, int]


def first_screen(results: Results, plan: Mapping) -> FirstScreen:
    """Make the first screen. plan: see `plan_file.read_plan`."""
    runs = results.runs
    found = answers(results.comparisons, results.break_even, dict(zip(runs["id"], runs["number"], strict=True)))
    statuses = ("ok", *CENSORED)
    return FirstScreen(
        title=_title(runs),
        compared=[_compared(values, group) for values, group in groups(runs, GROUP)],
        machine=_machine(runs),
        answers=found,
        no_answer="" if found else _no_answer(results.comparisons),
        warnings=warnings(results, plan),
        counts={"runs": len(runs)}
        | {status: int((runs["status"] == status).sum()) for status in statuses}
        | {"missing": len(plan["missing"])},
    )


def summary_json(screen: FirstScreen) -> str:
    """The first screen for machines: results/summary.json."""
    content = {
        "title": screen.title,
        "compared": screen.compared,
        "machine": screen.machine,
        "answers": [
            dict(zip(GROUP, one.group, strict=True))
            | {
                "first": one.first,
                "second": one.second,
                "sentence": plain(one.sentence),
                "comparisons": one.comparisons,
            }
            for one in screen.answers
        ],
        "no_answer": screen.no_answer or None,
        "warnings": [asdict(one) for one in screen.warnings],
        "runs": screen.counts,
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def plain(sentence: Sentence) -> str:
    """A sentence as text."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in sentence)


def listed(things: Iterable[object]) -> str:
    """Join with commas and a last "and": "1, 2 and 3"."""
    *most, last = [str(thing) for thing in things]
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, thing: str) -> str:
    """A number with its noun: "1 epoch", "2 epochs"."""
    return f"{number:,} {thing}{'s' if number != 1 else ''}"


# --- what was compared, on which machine --------------------------------------------------------------------------


def _title(runs: pd.DataFrame) -> str:
    """The trainers of these runs: "chainer and keras-jax on cpu", or "chainer on cpu and gpu, stock and tuned"."""
    frameworks, devices, *others = (listed(runs[key].unique()) for key in shown_of_trainers(runs))
    return ", ".join((f"{frameworks} on {devices}", *others))


def _compared(values: tuple, runs: pd.DataFrame) -> dict:
    """What one section compares."""
    epochs = sorted(int(number) for number in runs["epochs"].unique())
    repeats = int(runs["repeat"].nunique())
    how_long = f"{listed(epochs)} epoch{'s' if epochs != [1] else ''}, {counted(repeats, 'repeat')}"
    return dict(zip(GROUP, values, strict=True)) | {
        "frameworks": list(runs["framework"].unique()),
        "devices": list(runs["device"].unique()),
        "loops": list(runs["loop"].unique()),
        "epochs": epochs,
        "repeats": repeats,
        "sentence": f"{group_title(*values[1:])}: {_title(runs)}; {how_long}.",
    }


def _machine(runs: pd.DataFrame) -> str:
    """The machines and days of the runs, in a sentence."""
    machines = [
        f"{host} ({cpu_model}, {counted(threads, 'thread')} for each run)"
        for (host, cpu_model, threads), _ in groups(runs, ["host", "cpu_model", "threads"])
    ]
    shown = listed(machines) if len(machines) <= MOST_ANSWERS else f"{runs['host'].nunique()} hosts"
    gpus = listed(runs["gpu"].dropna().unique()) if runs["gpu"].notna().any() else ""
    days = listed(dict.fromkeys((runs["day"].min(), runs["day"].max()))).replace(" and ", " to ")
    return f"Trained on {shown}{f'; GPU: {gpus}' if gpus else ''}; {days}."


# --- answers ------------------------------------------------------------------------------------------------------


def answers(comparisons: pd.DataFrame, break_even: pd.DataFrame, numbers: Mapping[str, int]) -> list[Answer]:
    """The most telling comparisons of training times: verdicts first, and each section before a second of another.

    If a trainer is faster at some numbers of epochs and slower at others, the answer also gives the break-even.

    numbers: the number of each run, by its id.
    """
    of_time = comparisons[(comparisons["metric"] == COMPARED[0]) & (comparisons["dataset"] != DATASET)]
    ranked = []
    for place, (group, rows) in enumerate(groups(of_time, GROUP)):
        for order, (_, pair) in enumerate(groups(rows, list(SIDES))):
            known = [row for row in rows_of(pair.sort_values("epochs", ascending=False)) if row["ratio"] is not None]
            if known:
                undecided = min(
                    VERDICTS.index(row["verdict"]) // 2 if row["verdict"] in VERDICTS else 2 for row in known
                )
                turns = {"faster", "slower"} <= {row["verdict"] for row in known}
                end = _turning_point(known[0], break_even, numbers) if turns else ()
                ranked.append(((undecided, order, place), _answer(group, known, end, numbers)))
    best = sorted(ranked, key=lambda entry: entry[0])[:MOST_ANSWERS]
    return [answer for _, answer in sorted(best, key=lambda entry: (entry[0][2], entry[0][1]))]


def _no_answer(comparisons: pd.DataFrame) -> str:
    if comparisons.empty:
        return "There is no answer: no two trainers were trained in the same way."
    return "There is no answer: no two trainers can be compared. The table of comparisons of each section says why."


def _turning_point(compared: Mapping, break_even: pd.DataFrame, numbers: Mapping[str, int]) -> Sentence:
    """The end of the sentence on the two trainers of a comparison that says from how many epochs on one is faster."""
    keys = [*GROUP, *SIDES, "metric"]
    rows = rows_of(break_even[(break_even[keys] == [compared[key] for key in keys]).all(axis=1)])
    if not rows or rows[0]["low"] is None:
        return ()
    epochs, low, high = break_even_cells(rows[0], numbers)
    return (f"; {rows[0]['faster_after']} is faster from ", epochs, " epochs on (", low, " to ", high, ")")


def _answer(group: tuple, rows: list[dict], end: Sentence, numbers: Mapping[str, int]) -> Answer:
    """The answer from the comparisons of two trainers, largest number of epochs first; each has a ratio.

    end: from `_turning_point`.
    """
    _, recipe, dataset = group
    first, second = rows[0]["first"], rows[0]["second"]
    compared = [
        {key: row[key] for key in ("epochs", "pairs", "ratio", "low", "high", "verdict")}
        | {"runs": [int(numbers[run_id]) for run_id in row["run_ids"].split()]}
        for row in rows
    ]
    clauses = _clauses(rows)
    sentence: list[str | Cell] = [f"On {dataset} ({recipe}), {second} takes "]
    for place, same in enumerate(clauses):
        whose = f" the training time of {first}" if place == 0 else ""
        sentence += [" and " if 0 < place == len(clauses) - 1 else ", " if place else ""]
        sentence += _clause(same, whose, numbers)
    return Answer(group, first, second, (*sentence, *end, *_undecided(rows, numbers), "."), compared)


def _clauses(rows: list[dict]) -> list[list[dict]]:
    """The comparisons by clause: those of one verdict share one; of the others, the first and last have one."""
    by_verdict: dict[str, list[dict]] = {}
    for row in rows:
        by_verdict.setdefault(row["verdict"], []).append(row)
    clauses = []
    for verdict, same in by_verdict.items():
        ends = same if len(same) == 1 else [same[0], same[-1]]
        clauses += [same] if verdict in VERDICTS else [[row] for row in ends]
    return sorted(clauses, key=lambda clause: -clause[0]["epochs"])


def _clause(rows: list[dict], whose: str, numbers: Mapping[str, int]) -> Sentence:
    """The ratio of the first of these comparisons, with its interval and verdict; the others have the same verdict."""
    row, *others = rows
    cells = comparison_cells(row, numbers)
    pieces: Sentence = (cells["ratio"], f" times{whose} at {counted(row['epochs'], 'epoch')}")
    if row["low"] is None:
        return pieces
    pieces += (" (95 % interval " if whose else " (", cells["low"], " to ", cells["high"])
    if row["verdict"] in VERDICTS:
        as_at = f", as at {listed(other['epochs'] for other in reversed(others))}" if others else ""
        pieces += (": ", cells["verdict"], as_at)
    return (*pieces, ")")


def _undecided(rows: list[dict], numbers: Mapping[str, int]) -> Sentence:
    """The end of the sentence that says why there is no verdict, at which numbers of epochs; empty if there are all."""
    reasons = {row["verdict"]: row for row in rows if row["verdict"] not in VERDICTS}
    pieces: Sentence = ()
    for verdict, row in reasons.items():
        where = sorted(other["epochs"] for other in rows if other["verdict"] == verdict)
        at = f" at {listed(where)} epoch{'s' if where != [1] else ''}" if len(where) < len(rows) else ""
        pieces += (f"; no verdict{at}: ", comparison_cells(row, numbers)["verdict"])
    return pieces
