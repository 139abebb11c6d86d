"""The first screen of the report as plain data: what was compared, whether to trust it, the answers, and the warnings.

The page and results/summary.json are made of the same `FirstScreen`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from trainmark.plan.run import group_title
from trainmark.report.answers import MOST_ANSWERS, Answer, Sentence, answers
from trainmark.report.standings import Standing, standings
from trainmark.report.warnings import UNCERTIFIED, Warned, warnings
from trainmark.tables.formatting import CENSORED, counted, listed
from trainmark.tables.results import Results
from trainmark.tables.tables import GROUP, groups, shown_of_trainers, with_names
from trainmark.tables.verdicts import certified_count

NO_ANSWER = "There is no answer: no two trainers can be compared. The tables of comparisons say why, if there are any."


@dataclass(frozen=True)
class FirstScreen:
    """What the first screen says.

    title: the trainers that were compared.
    compared: what each section compares, with a sentence.
    machine: a sentence.
    trust: counts of certified pairs, and of runs that were disturbed or censored: kind (that of the warning that says
        more, if there is one), text, and whether it is good.
    standings: of each section that compares trainers.
    answers: no_answer says why there is none.
    counts: the number of runs, in total, by status, and of those missing.
    """

    title: str
    compared: list[dict]
    machine: str
    trust: list[dict]
    standings: list[Standing]
    answers: list[Answer]
    no_answer: str
    warnings: list[Warned]
    counts: dict[str, int]

    @property
    def has_variants(self) -> bool:
        """Whether an experiment has variants."""
        return any(one.of_variants for one in self.standings)

    @property
    def of_trainers(self) -> list[Standing]:
        """The standings of trainers, not of variants."""
        return [one for one in self.standings if not one.of_variants]

    @property
    def shown_answers(self) -> list[Answer]:
        """The answers that stand in sentences, at most MOST_ANSWERS; the overview of the sections has the others."""
        groups = {one.group for one in self.standings if one.of_variants}
        of_variants = [one for one in self.answers if one.group in groups]
        are_few = len(self.of_trainers) + len(of_variants) <= MOST_ANSWERS
        return self.answers if are_few else of_variants[:MOST_ANSWERS]


def first_screen(results: Results, plan: Mapping) -> FirstScreen:
    """Make the first screen. plan: see `plan_file.read_plan`."""
    runs = results.runs
    standing = list(standings(results, plan))
    found = list(answers(results, standing))
    statuses = ("ok", *CENSORED)
    counts = {"runs": len(runs)} | {status: int((runs["status"] == status).sum()) for status in statuses}
    counts |= {"missing": len(plan["missing"])}
    return FirstScreen(
        title=_title(runs),
        compared=[_compared(group, of_group) for _, group, of_group in results.groups()],
        machine=_machine(runs),
        trust=_trust(results.parity, runs, counts),
        standings=standing,
        answers=found,
        no_answer="" if found else NO_ANSWER,
        warnings=warnings(results, plan),
        counts=counts,
    )


def summary_json(screen: FirstScreen, methods: Iterable[Mapping]) -> str:
    """The first screen and the methods for machines: results/summary.json. methods: from `methods.methods`."""
    content = {
        "title": screen.title,
        "compared": screen.compared,
        "machine": screen.machine,
        "trust": [one["text"] for one in screen.trust],
        "standings": [_standing(one) for one in screen.standings],
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
        "methods": list(methods),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _standing(standing: Standing) -> dict:
    trainers: list[dict] = [
        {"trainer": place.trainer, "verdict": place.word, "note": place.note}
        | {name: place.cells[name].value if place.cells else None for name in ("ratio", "low", "high")}
        for place in standing.places
    ]
    metric = {"metric": standing.metric} if standing.of_variants else {}
    own = {"baseline": standing.baseline, "epochs": standing.epochs, "trainers": trainers}
    return dict(zip(GROUP, standing.group, strict=True)) | metric | own


def plain(sentence: Sentence) -> str:
    """A sentence as text."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in sentence)


# --- what was compared, on which machine --------------------------------------------------------------------------


def _title(runs: pd.DataFrame) -> str:
    """The trainers of these runs: "chainer and keras-jax on cpu", or "chainer on cpu and gpu, 1 and 2 workers".

    A command has the name of its own.
    """
    parts = {key: listed(with_names(runs)[key].unique()) for key in shown_of_trainers(runs)}
    loops = [parts["loop"]] if "loop" in parts else []
    workers = [f"{parts['workers']} workers"] if "workers" in parts else []
    return ", ".join((f"{parts['framework']} on {parts['device']}", *loops, *workers))


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


# --- trust --------------------------------------------------------------------------------------------------------


def _trust(parity: pd.DataFrame, runs: pd.DataFrame, counts: Mapping[str, int]) -> list[dict]:
    """The counts below the title."""
    certified = certified_count(parity)
    text = f"{certified} of {counted(len(parity), 'pair')} certified"
    found = [{"kind": UNCERTIFIED, "text": text, "is_good": certified == len(parity)}] if len(parity) else []
    bad = [
        ("disturbed", int((runs["disturbed"] != "").sum()), "disturbed"),
        *((word, counts[status], word) for status, word in CENSORED.items()),
        ("missing runs", counts["missing"], "missing"),
    ]
    return found + [{"kind": kind, "text": f"{number:,} {word}", "is_good": number == 0} for kind, number, word in bad]
