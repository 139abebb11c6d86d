"""Trains runs that other work disturbed again, at the end of the call that trained them.

Each attempt is a further call of snakemake for these runs alone; a last one makes the tables anew.
"""

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from trainmark.console import Terminal, in_words, print_line
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.plan_file import read_plan
from trainmark.plan.products import PLAN_FILE
from trainmark.session.forecast import busy_seconds_of
from trainmark.session.kept import read_kept
from trainmark.session.other_calls import call_again
from trainmark.trainer import Trainer
from trainmark.variant import split_name

AGAIN_VARIABLE = "TRAINMARK_AGAIN"
"""Environment variable of a call with which another one mends itself: ids of the runs to train again, or nothing to
make tables and report."""

PROBE = 0.25
"""Share of its time that the first attempt may take. If it mends no run, the other work goes on, and it is the last."""

Records = Mapping[str, Mapping[str, Any]]
"""Records by run id."""


def is_mending() -> bool:
    """Whether this call is one with which another one mends itself."""
    return AGAIN_VARIABLE in os.environ


def asked_again() -> list[str]:
    """Ids of the runs that this call is to train again, if it is one with which another one mends itself."""
    return os.environ.get(AGAIN_VARIABLE, "").split()


def advice(share: float) -> str:
    """What can be done about other work, as the end of a sentence. share: see `mend`."""
    if is_mending():
        return ""
    at_end = "; end it, and the call trains disturbed runs again at its end" if share else ""
    return f"{at_end}; to stop now, press Ctrl-C, and later add --config rerun_disturbed=true to the same call"


def mend(trained: Container[str], share: float, call: Sequence[str], stream: Terminal) -> bool:
    """Train disturbed runs again, and then make the tables of all. Return whether nothing failed, claims included.

    trained: ids of the runs that the call has trained. call: its options.
    share: the most time that this may take, as a share of what these runs took.
    """
    records = _read_records()
    budget_seconds = share * sum(busy_seconds_of(record) for run_id, record in records.items() if run_id in trained)
    left_seconds, attempts = budget_seconds, 0
    while disturbed := to_mend(records, trained):
        some = [] if attempts else _affordable(disturbed, records, PROBE * budget_seconds)
        if not (chosen := some or _affordable(disturbed, records, left_seconds)):
            break
        seconds = sum(busy_seconds_of(records[run_id]) for run_id in chosen)
        runs = f"{len(disturbed)} disturbed run{'s' if len(disturbed) > 1 else ''}"
        print_line(
            f"training {len(chosen)} of {runs} again, which takes about {in_words(seconds)} "
            f"(rerun_share: at most {in_words(budget_seconds)} in all)",
            stream,
        )
        status = call_again(call, {AGAIN_VARIABLE: " ".join(chosen)})
        attempts, left_seconds, records = attempts + 1, left_seconds - seconds, _read_records()
        if all(run_id in records and records[run_id]["disturbed"] for run_id in chosen):
            print_line("disturbed again: the other work goes on, and no more runs are trained again", stream)
            break
        if status:
            break
    return not attempts or not call_again(call, {AGAIN_VARIABLE: ""})


def to_mend(records: Records, trained: Container[str]) -> list[str]:
    """The ids of disturbed runs, repeat by repeat, of pairs of trainers that have fewer than LEAST_PAIRS undisturbed
    pairs of runs and may come to have them.

    trained: ids of the runs that may be trained again.
    """
    groups: dict[tuple, dict[tuple, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    for run_id, record in records.items():
        if record["status"] == "ok":
            run = record["run"]
            of = (split_name(run["experiment"])[0], run["recipe"], run["dataset"], run["epochs"])
            groups[of][run["experiment"], Trainer.of(run)][run["repeat"]] = run_id
    all_disturbed = {run_id for run_id, record in records.items() if record["disturbed"]}
    repeats: dict[str, int] = {}
    for trainers in groups.values():
        for first, second in combinations(trainers.values(), 2):
            common = first.keys() & second.keys()
            disturbed = {one: {first[one], second[one]} & all_disturbed for one in common}
            clean = sum(not runs for runs in disturbed.values())
            if clean < LEAST_PAIRS <= len(common):
                repeats |= {run: repeat for repeat, runs in disturbed.items() for run in runs if run in trained}
    return sorted(repeats, key=lambda run: (repeats[run], run))


def _affordable(run_ids: Iterable[str], records: Records, seconds: float) -> list[str]:
    """The first of these runs that take at most so long together."""
    found = []
    for run_id in run_ids:
        seconds -= busy_seconds_of(records[run_id])
        if seconds < 0:
            break
        found.append(run_id)
    return found


def _read_records() -> Records:
    """The records of all runs that can be read."""
    plan = read_plan(Path(PLAN_FILE))
    found = {run_id: read_kept(record) for run_id, record in plan["records"].items()}
    return {run_id: record for run_id, record in found.items() if record}
