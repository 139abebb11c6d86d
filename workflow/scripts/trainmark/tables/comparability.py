"""Selects the pairs of runs that may enter a verdict, and says what a reader must know about them."""

from collections import Counter

import pandas as pd

from trainmark.tables.waiting import SHARES

CENSORED_PAIR = "diverged or out of memory"
ZERO = "with a value of 0"
DISTURBED = "disturbed"

RUN_COLUMNS = (
    "status", "disturbed", "device", "calls", "host", "cpu_model", "held_cpus", "threads", "library_settings",
    "environment", "packages_sha256", *dict.fromkeys(SHARES.values()),
)  # fmt: skip
"""Columns of the table of runs that are used here. In a table of pairs, their names end in _first and _second."""

REPEATED = {
    "cpu_model": "processors", "held_cpus": "numbers of CPUs", "threads": "thread counts",
    "library_settings": "settings of libraries", "packages_sha256": "sets of packages",
}  # fmt: skip
"""Columns that should be equal in all repeats of a trainer, each with its plural in words."""


WITHHELD = "withheld: "
"""The beginning of a verdict that is withheld; the reason follows."""


def exclusion_reasons(pairs: pd.DataFrame, metric: str) -> pd.Series:
    """For each pair, why it is left out of the comparison of a metric; "" if it is not left out.

    What disturbs a run changes its times, but neither its loss nor its accuracy.
    """

    def of_pair(pair: pd.Series) -> str:
        if (pair["status_first"], pair["status_second"]) != ("ok", "ok"):
            return CENSORED_PAIR
        if 0 in (pair[f"{metric}_first"], pair[f"{metric}_second"]):
            return ZERO
        if metric not in SHARES:
            return ""
        causes = ", ".join(filter(None, (pair["disturbed_first"], pair["disturbed_second"])))
        return f"{DISTURBED} ({', '.join(dict.fromkeys(causes.split(', ')))})" if causes else ""

    return pairs.apply(of_pair, axis=1).astype("str")


def count_reasons(reasons: pd.Series) -> str:
    """Count the pairs left out for each reason: "2 disturbed (foreign load); 1 with a value of 0"; "" for none."""
    return "; ".join(f"{count} {reason}" for reason, count in Counter(filter(None, reasons)).items())


def withheld_for_disturbance(reasons: pd.Series, measured: int, needed: int) -> str | None:
    """Say that a verdict is withheld because of disturbed pairs; None if it is not.

    A verdict is withheld if the undisturbed pairs are too few but all pairs would have been enough, or if no
    undisturbed pair remains.

    reasons: from `exclusion_reasons`.
    measured: number of pairs that may enter the verdict.
    needed: number of pairs that a verdict needs.
    """
    disturbed = [reason for reason in reasons if reason.startswith(DISTURBED)]
    pairs = measured + len(disturbed)
    if not disturbed or measured >= needed or (measured and pairs < needed):
        return None
    causes = dict.fromkeys(cause for reason in disturbed for cause in reason[len(DISTURBED) + 2 : -1].split(", "))
    return f"{WITHHELD}{len(disturbed)} of {pairs} pairs disturbed ({', '.join(causes)})"


def is_withheld_for_disturbance(verdict: str) -> bool:
    """Whether a verdict is one of `withheld_for_disturbance`."""
    return verdict.startswith(WITHHELD) and DISTURBED in verdict


def withheld_for_machines(pairs: pd.DataFrame) -> str | None:
    """Say that a verdict is withheld because the runs of a pair had different machines or settings; None if it is not.

    Numbers of CPUs are not compared between a CPU run and a GPU run, which holds its GPU's share of the cores.
    """
    for column in ("cpu_model", "held_cpus", "library_settings"):
        comparable = ~_differ(pairs, "device") | (column != "held_cpus")
        unlike = pairs[_differ(pairs, column) & comparable]
        if len(unlike):
            values = sorted({*unlike[f"{column}_first"], *unlike[f"{column}_second"]})
            named = " and ".join(str(value) or "none" for value in values)
            return f"{WITHHELD}{REPEATED[column]} differ in {len(unlike)} of {len(pairs)} pairs ({named})"
    return None


def withheld_for_target(pairs: pd.DataFrame, metric: str) -> str | None:
    """Say that a verdict is withheld because runs never reached the target accuracy; None if it is not.

    Without these runs, a trainer that seldom reaches the target would look fast.
    """
    unreached = pairs[[f"{metric}_first", f"{metric}_second"]].isna().any(axis=1)
    if metric != "target_seconds" or not unreached.any():
        return None
    return f"{WITHHELD}in {unreached.sum()} of {len(pairs)} pairs a run never reached the target accuracy"


def notes(pairs: pd.DataFrame) -> list[str]:
    """Sentences on what else the runs of the pairs do not share: the call of snakemake, the host, the packages."""
    same_environment = ~_differ(pairs, "environment")  # between environments packages differ intentionally
    differences = {
        "were trained in different calls of snakemake": _differ(pairs, "calls"),
        "were trained on different hosts": _differ(pairs, "host"),
        "have different packages": _differ(pairs, "packages_sha256") & same_environment,
    }
    sentences = [
        f"in {which.sum()} of {len(pairs)} pairs the runs {what}" for what, which in differences.items() if which.any()
    ]
    for column, name in REPEATED.items():
        count = max(pairs[f"{column}_{side}"].nunique() for side in ("first", "second"))
        if count > 1:
            sentences.append(f"the repeats of one trainer have {count} different {name}")
    return sentences


def _differ(pairs: pd.DataFrame, column: str) -> pd.Series:
    return pairs[f"{column}_first"] != pairs[f"{column}_second"]
