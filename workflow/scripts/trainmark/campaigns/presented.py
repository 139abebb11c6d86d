"""A comparison of two campaigns for people and for machines: on the terminal, as a page, as JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from trainmark.campaigns.differences import SIDES, Comparison
from trainmark.campaigns.folders import Campaign, some
from trainmark.campaigns.pages import render
from trainmark.campaigns.sameness import SAME, short
from trainmark.console import CONTROLS
from trainmark.tables.formatting import counted, format_figure, listed, with_interval
from trainmark.tables.frames import ENDS, SETTING
from trainmark.tables.metrics import COMPARED
from trainmark.tables.verdicts import verdict_notes

MEDIANS = [f"median_{side}" for side in SIDES]

NUMBERS = [
    *SETTING, "metric", *MEDIANS, "runs_first", "runs", *ENDS, "p_value", "compared", "detectable",
]  # fmt: skip
"""The columns of a row that the JSON has."""

ROOM = 40
"""The characters that a cell of the terminal has room for."""


def document(comparison: Comparison, judged: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """What is printed of a comparison. judged: see `differences.judged`."""
    settings = [one.name for one in comparison.settings]
    return {
        "campaigns": [_campaign(one) for one in (comparison.first, comparison.second)],
        "claims": [{"claim": text, "settings": _settings(own, settings)} for text, own in comparison.claims.items()],
        "facts": [
            {
                "fact": fact.name, "status": fact.status, "settings": _settings(own, settings),
                **{side: getattr(fact, side) for side in SIDES},
                "shown": ["" if fact.status == SAME and not one else short(one) for one in (fact.first, fact.second)],
            }
            for fact, own in comparison.facts.items()
        ],
        "differences": [_difference(row) for row in comparison.rows],
        **{f"only_in_{side}": getattr(comparison, f"only_{side}") for side in SIDES},
        "limit": [{"verdict": verdict, "sentence": sentence} for verdict, sentence in judged],
    }  # fmt: skip


def as_json(shown: dict[str, Any]) -> str:
    """The document as JSON; a number that is missing is null."""
    return json.dumps(shown, indent=1) + "\n"


def as_text(shown: dict[str, Any]) -> str:
    """The document for a terminal. Campaigns of others may contain control characters, which are replaced."""
    facts = [[one["fact"], one["status"], *map(_cut, one["shown"]), one["settings"]] for one in shown["facts"]]
    ratios = [
        [one["setting"], one["metric"], *one["medians"], one["ratio"], one["verdict"]] for one in shown["differences"]
    ]
    tables = {
        "facts": tabulate(facts, ["", "", *SIDES, "settings"], disable_numparse=True),
        "ratios": tabulate(ratios, ["setting", "metric", *SIDES, "second / first", ""], disable_numparse=True),
    }
    text = render("compare.txt.j2", autoescape=False, **shown, tables=tables)
    return "\n".join(CONTROLS.sub("?", line) for line in text.splitlines()) + "\n"


def as_page(shown: dict[str, Any]) -> str:
    """The document as a page that works offline."""
    return render("compare.html.j2", **shown)


def _campaign(campaign: Campaign) -> dict[str, str]:
    runs = campaign.runs
    machines = listed((runs["host"] + " (" + runs["cpu_model"] + ")").unique())
    return {
        "name": campaign.name,
        "began": campaign.began[:10],
        "runs": counted(len(runs), "run"),
        "machines": machines,
    }


def _difference(row: dict) -> dict[str, Any]:
    """A row of numbers as JSON and as text. What is missing or infinite is null."""
    metric, notes = row["metric"], verdict_notes(row) if row["test"] else [row["note"]]
    numbers = {
        key: None if pd.isna(row[key]) or row[key] == float("inf") else row[key] for key in NUMBERS if key in row
    }
    return {
        "setting": row["setting"], "metric": COMPARED[metric].heading, "ratio": with_interval(row),
        "medians": ["" if pd.isna(one) else format_figure(metric, one) for one in (row[key] for key in MEDIANS)],
        "verdict": row["verdict"], "notes": "; ".join(filter(None, notes)), "numbers": numbers,
    }  # fmt: skip


def _settings(names: Iterable[str], of: Sequence[str]) -> str:
    """The names of settings, or "all"."""
    own = list(dict.fromkeys(names))
    return "all" if len(own) == len(of) else some(own)


def _cut(text: str) -> str:
    """A text that has room in a table on the terminal."""
    return text if len(text) <= ROOM else f"{text[: ROOM - 3]}..."
