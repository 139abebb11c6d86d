"""The first screen of the report: what was compared, whether to trust it, the answers, and the warnings.

The page and results/summary.json are made of the same `FirstScreen`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from trainmark.plan.run import group_title
from trainmark.report.standings import Answer, Standing, answers, standings
from trainmark.report.templates import templates
from trainmark.report.warnings import UNCERTIFIED, Warned, warnings
from trainmark.tables.formatting import CENSORED, counted, listed
from trainmark.tables.frames import ENDS, groups, shown_of_trainers, with_names
from trainmark.tables.sections import Results, Section
from trainmark.tables.verdicts import refused_pairs
from trainmark.variant import GROUP

NO_ANSWER = "There is no answer: no two trainers can be compared. The tables of comparisons say why, if there are any."


class FirstScreen(NamedTuple):
    """What the first screen says: the keys of summary.json, but for the methods (docs/results.md).

    trust: counts, each with its kind (that of the warning that says more, if there is one), text, and is_good.
    """

    title: str
    compared: list[dict]
    machine: str
    trust: list[dict]
    standings: list[Standing]
    answers: list[Answer]
    no_answer: str | None
    warnings: list[Warned]
    runs: dict[str, int]


def first_screen(results: Results) -> FirstScreen:
    """Make the first screen."""
    runs = results.runs
    found = [one for section in results.sections for one in standings(section)]
    told, statuses = list(answers(found)), [*runs["status"]]
    counts = {"runs": len(runs)} | {status: statuses.count(status) for status in ("ok", *CENSORED)}
    counts |= {"missing": len(results.plan["missing"])}
    return FirstScreen(
        _title(runs),
        [_compared(section) for section in results.sections],
        _machine(runs),
        _trust(results.parity, runs, counts),
        found,
        told,
        None if told else NO_ANSWER,
        warnings(results),
        counts,
    )


def summary_json(screen: FirstScreen, methods: Iterable[Mapping]) -> str:
    """The first screen and the methods for machines: results/summary.json. methods: from `methods.methods`."""
    content = screen._asdict() | {
        "trust": [one["text"] for one in screen.trust],
        "standings": [_standing(one) for one in screen.standings],
        "answers": [_answer(one) for one in screen.answers],
        "warnings": [one._asdict() for one in screen.warnings],
        "methods": list(methods),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _standing(standing: Standing) -> dict:
    trainers = [
        {"trainer": place.trainer, "verdict": place.word, "note": place.note, **_interval(place.row)}
        for place in standing.places
    ]
    metric = {"metric": standing.metric} if standing.section.has_variants else {}
    own = {"baseline": standing.baseline, "epochs": standing.epochs, "trainers": trainers}
    return dict(zip(GROUP, standing.section.group, strict=True)) | metric | own


def _answer(answer: Answer) -> dict:
    sentences: Any = templates(autoescape=True).get_template("sentences.j2").module
    sentence = sentences.answer_of(answer).striptags()
    own = {"first": answer.standing.baseline, "second": answer.second, "sentence": sentence}
    comparisons = [
        {
            "epochs": row["epochs"],
            "pairs": row["runs"],
            "bounded": row["bounded"],
            **_interval(row),
            "verdict": row["verdict"],
        }
        | {"runs": [int(number) for number in row["run_numbers"].split()]}
        for row in answer.rows
    ]
    return dict(zip(GROUP, answer.standing.section.group, strict=True)) | own | {"comparisons": comparisons}


def _interval(row: Mapping | None) -> dict:
    return {name: row and row[end] for name, end in zip(("ratio", "low", "high"), ENDS, strict=True)}


def _title(runs: pd.DataFrame) -> str:
    """The trainers of these runs, with a command's own name: "chainer and keras-jax on cpu, 1 and 2 workers"."""
    parts = {key: listed(with_names(runs)[key].unique()) for key in shown_of_trainers(runs)}
    loops = [parts["loop"]] if "loop" in parts else []
    workers = [f"{parts['workers']} workers"] if "workers" in parts else []
    return ", ".join((f"{parts['framework']} on {parts['device']}", *loops, *workers))


def _compared(section: Section) -> dict:
    """What one section compares."""
    runs = section.runs
    epochs, repeats = sorted(int(number) for number in runs["epochs"].unique()), int(runs["repeat"].nunique())
    how_long = f"{listed(epochs)} epoch{'s' if epochs != [1] else ''}, {counted(repeats, 'repeat')}"
    return dict(zip(GROUP, section.group, strict=True)) | {
        **{f"{part}s": list(runs[part].unique()) for part in ("framework", "device", "loop")},
        "epochs": epochs,
        "repeats": repeats,
        "sentence": f"{group_title(*section.group[1:])}: {_title(runs)}; {how_long}.",
    }


def _machine(runs: pd.DataFrame) -> str:
    """The machines and days of the runs, in a sentence."""
    machines = [
        f"{host} ({cpu_model}, {counted(threads, 'thread')} for each run)"
        for (host, cpu_model, threads), _ in groups(runs, ["host", "cpu_model", "threads"])
    ]
    shown = listed(machines) if len(machines) <= 3 else f"{runs['host'].nunique()} hosts"
    gpus = listed(runs["gpu"].dropna().unique()) if runs["gpu"].notna().any() else ""
    days = " to ".join(dict.fromkeys((runs["day"].min(), runs["day"].max())))
    return f"Trained on {shown}{f'; GPU: {gpus}' if gpus else ''}; {days}."


def _trust(parity: pd.DataFrame, runs: pd.DataFrame, counts: Mapping[str, int]) -> list[dict]:
    """The counts below the title."""
    certified = len(parity) - len(refused_pairs(parity))
    text = f"{certified} of {counted(len(parity), 'pair')} certified"
    found = [{"kind": UNCERTIFIED, "text": text, "is_good": certified == len(parity)}] if len(parity) else []
    bad = {"disturbed": (runs["disturbed"] != "").sum()} | {word: counts[status] for status, word in CENSORED.items()}
    for kind, number in (bad | {"missing runs": counts["missing"]}).items():
        found.append({"kind": kind, "text": f"{number:,} {kind.removesuffix(' runs')}", "is_good": number == 0})
    return found
