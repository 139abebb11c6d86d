"""Which pairs of runs may enter a verdict, and what a verdict on them has to say."""

from collections import Counter

import pandas as pd

CENSORED_PAIR = "diverged or out of memory"
NO_TIME = "with a time of 0"
DISTURBED = "disturbed"

FACTS = ("status", "disturbed", "device", "calls", "host", "cpu_model", "threads", "environment", "packages_sha256")
"""Columns of the table of runs that this looks at, beside the times. Of pairs they end in _first and _second."""

REPEATED = {"cpu_model": "processors", "threads": "thread counts", "packages_sha256": "sets of packages"}
"""Columns in which all repeats of a trainer should be equal, in words."""


def left_out(pairs: pd.DataFrame, metric: str) -> pd.Series:
    """Why each pair is left out of the comparison of a time; "" for one that is not."""

    def of_pair(pair: pd.Series) -> str:
        if (pair["status_first"], pair["status_second"]) != ("ok", "ok"):
            return CENSORED_PAIR
        if 0 in (pair[f"{metric}_first"], pair[f"{metric}_second"]):
            return NO_TIME
        causes = ", ".join(filter(None, (pair["disturbed_first"], pair["disturbed_second"])))
        return f"{DISTURBED} ({', '.join(dict.fromkeys(causes.split(', ')))})" if causes else ""

    return pairs.apply(of_pair, axis=1).astype("str")


def counted(reasons: pd.Series) -> str:
    """How many pairs are left out for which reason: "2 disturbed (foreign load); 1 with a time of 0"; "" for none."""
    return "; ".join(f"{count} {reason}" for reason, count in Counter(filter(None, reasons)).items())


def too_many_disturbed(reasons: pd.Series, measured: int, needed: int) -> str | None:
    """Why a verdict is withheld where the pairs would have been enough without disturbance, or none is left."""
    disturbed = [reason for reason in reasons if reason.startswith(DISTURBED)]
    pairs = measured + len(disturbed)
    if not disturbed or measured >= needed or (measured and pairs < needed):
        return None
    causes = dict.fromkeys(cause for reason in disturbed for cause in reason[len(DISTURBED) + 2 : -1].split(", "))
    return f"withheld: {len(disturbed)} of {pairs} pairs disturbed ({', '.join(causes)})"


def other_machines(pairs: pd.DataFrame) -> str | None:
    """Why a verdict is withheld where the runs of a pair were trained on unlike machines; else None.

    A GPU run holds its GPU's share of the cores: its threads are not held against those of a CPU run.
    """
    for column in ("cpu_model", "threads"):
        held = ~_differ(pairs, "device") | (column != "threads")
        unlike = pairs[_differ(pairs, column) & held]
        if len(unlike):
            values = sorted({*unlike[f"{column}_first"], *unlike[f"{column}_second"]})
            found = " and ".join(map(str, values))
            return f"withheld: {REPEATED[column]} differ in {len(unlike)} of {len(pairs)} pairs ({found})"
    return None


def notes(pairs: pd.DataFrame) -> list[str]:
    """What else the runs of the pairs do not share: the call of snakemake, the host, the packages."""
    same_environment = ~_differ(pairs, "environment")  # of others the packages differ by intention
    unlike = {
        "were trained in different calls of snakemake": _differ(pairs, "calls"),
        "were trained on different hosts": _differ(pairs, "host"),
        "have different packages": _differ(pairs, "packages_sha256") & same_environment,
    }
    told = [f"{which.sum()} of {len(pairs)} pairs {what}" for what, which in unlike.items() if which.any()]
    for column, name in REPEATED.items():
        count = max(pairs[f"{column}_{side}"].nunique() for side in ("first", "second"))
        if count > 1:
            told.append(f"the repeats have {count} {name}")
    return told


def _differ(pairs: pd.DataFrame, column: str) -> pd.Series:
    return pairs[f"{column}_first"] != pairs[f"{column}_second"]
