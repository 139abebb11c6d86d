"""Selects the pairs of runs that may enter a verdict, and says what a reader must know about them.

The functions withheld_for_* say that a verdict is withheld for a reason; "" if it is not.
"""

from math import comb

import numpy as np
import pandas as pd

from trainmark.machine.disturbance import FOREIGN_LOAD, FOREIGN_SHARE
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.tables.bounds import LEAST
from trainmark.tables.formatting import causes_in, counted
from trainmark.tables.metrics import COMPARED
from trainmark.tables.paired import LEVEL

CENSORED_PAIR, ZERO, DISTURBED = "diverged or out of memory", "with a value of 0", "disturbed"
"""Why a pair is left out. A disturbed one may enter with bounds."""

RUN_COLUMNS = (
    "status", "disturbed", "foreign_share", *LEAST.values(), "device", "calls", "host", "cpu_model", "held_cpus",
    "threads", "library_settings", "environment", "packages_sha256", "training_waiting_share", "waiting_share",
)  # fmt: skip
"""Columns of the table of runs that are used here. In a table of pairs, their names end in _first and _second."""

REPEATED = {
    "cpu_model": "processors", "held_cpus": "numbers of CPUs", "threads": "thread counts",
    "library_settings": "settings of libraries", "packages_sha256": "sets of packages",
}  # fmt: skip
"""Columns that should be equal in all repeats of a trainer, each with its plural in words."""

TOO_FEW = "too few pairs"
"""Beginning of what stands in place of a verdict if repeats are too few."""

WITHHELD = "withheld: "
"""Beginning of what stands in place of a verdict that is withheld; the reason follows."""

WAITING_LIMIT = 0.1
"""Largest share of its time that a run may wait for batches: its time is then at most 11 % longer than without waiting.
The limit is a choice, not a measurement."""


def of_both(pairs: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series]:
    """The values of a column of the first and of the second runs."""
    return pairs[f"{column}_first"], pairs[f"{column}_second"]


def admitted(pairs: pd.DataFrame, metric: str, cells: int) -> pd.DataFrame:
    """Decide which pairs of runs enter the comparison of a metric: the pairs with the columns

    excluded: why a pair is left out; "" if it enters.
    is_bounded: whether it enters although other work disturbed it, with bounds of its times (see `bounds`). Such pairs
        enter if the undisturbed ones are fewer than a verdict needs. That depends on no time, so it favours no trainer.
    ratio, lower, upper: second / first, and its ends. If any pair enters with bounds, all have them, since there is
        some other work beside undisturbed runs, too; and the ratio is the middle of its ends.
    cells: how many pairs a repeat has.
    """
    (first, second), reasons = of_both(pairs, metric), _exclusion_reasons(pairs, metric)
    ratio, ends = second.astype("float64") / first.astype("float64"), _ends_of_ratios(pairs, metric)
    clean = with_all_cells(pairs[(reasons == "") & ratio.notna()], cells)["repeat"].nunique()
    is_bounded = reasons.str.startswith(DISTURBED) & ends.notna().all(axis=1) & (clean < LEAST_PAIRS)
    if is_bounded.any():
        ratio = ((ends["lower"] * ends["upper"]) ** 0.5).fillna(ratio)
    else:
        ends = ends.assign(lower=ratio, upper=ratio)
    return pairs.assign(ratio=ratio, **ends, excluded=reasons.mask(is_bounded, ""), is_bounded=is_bounded)


def with_all_cells(pairs: pd.DataFrame, cells: int) -> pd.DataFrame:
    """Return the pairs of the repeats that have as many pairs."""
    return pairs if cells == 1 else pairs[pairs.groupby("repeat")["repeat"].transform("size") == cells]


def _exclusion_reasons(pairs: pd.DataFrame, metric: str) -> pd.Series:
    """For each pair, why it is left out of the comparison of a metric; "" if it is not left out."""
    causes = [", ".join(causes_in(texts)) for texts in zip(*of_both(pairs, "disturbed"), strict=True)]
    disturbed = [f"{DISTURBED} ({own})" if own and not COMPARED[metric].is_lasting else "" for own in causes]
    reasons, (first, second) = pd.Series(disturbed, pairs.index, dtype="str"), of_both(pairs, metric)
    reasons[(first == 0) | (second == 0)] = ZERO
    reasons[(pairs["status_first"] != "ok") | (pairs["status_second"] != "ok")] = CENSORED_PAIR
    return reasons


def _ends_of_ratios(pairs: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The least and the largest ratio of each pair (`lower`, `upper`); NaN if a disturbed run has no bound."""
    times = [time.astype("float64") for time in of_both(pairs, metric)]
    known = of_both(pairs, LEAST[metric]) if metric in LEAST else [pd.Series(np.nan, pairs.index)] * 2
    of_sides = zip(times, known, of_both(pairs, "disturbed"), strict=True)
    least = [one.where(one.notna() | (causes != ""), time) for time, one, causes in of_sides]
    return pd.DataFrame({"lower": least[1] / times[0], "upper": times[1] / least[0]})


def withheld_for_disturbance(reasons: pd.Series, measured: int) -> str:
    """The pairs that enter are too few but all pairs would have been enough, or none enters.

    reasons: `excluded` of each repeat. measured: how many of them may enter the verdict.
    """
    disturbed = [reason for reason in reasons if reason.startswith(DISTURBED)]
    pairs = measured + len(disturbed)
    if not disturbed or measured >= LEAST_PAIRS or (measured and pairs < LEAST_PAIRS):
        return ""
    causes = causes_in(reason[len(DISTURBED) + 2 : -1] for reason in disturbed)
    return f"{WITHHELD}{len(disturbed)} of {pairs} pairs disturbed ({', '.join(causes)})"


def is_withheld_for_disturbance(verdict: str) -> bool:
    """Whether a verdict is withheld because other work or something else disturbed runs."""
    return verdict.startswith(WITHHELD) and (DISTURBED in verdict or FOREIGN_LOAD in verdict)


def withheld_for_one_sided_load(pairs: pd.DataFrame, *names: str) -> str:
    """Other work ran mostly beside one of two trainers with these names. The runs of a repeat have a random order, so
    this is no chance, and the work may be the trainer's own, which is then slower than its least times say.

    It is a sign test on the pairs in which the shares of the CPUs' time differ by more than a run may have without
    being disturbed.
    """
    first, second = (share.fillna(0.0) for share in of_both(pairs, "foreign_share"))
    more = [int((one - other > FOREIGN_SHARE).sum()) for one, other in ((first, second), (second, first))]
    trials, most = sum(more), max(more)
    chance = 2 * sum(comb(trials, count) for count in range(most, trials + 1)) / 2**trials
    if chance > LEVEL:
        return ""
    name = names[more.index(most)]
    return f"{WITHHELD}{FOREIGN_LOAD} beside {name} in {most} of {counted(trials, 'pair')}: it may be its own work"


def withheld_for_machines(pairs: pd.DataFrame) -> str:
    """The runs of a pair had different machines or settings. Numbers of CPUs are not compared between a CPU run and a
    GPU run, which holds its GPU's share of the cores.
    """
    for column in ("cpu_model", "held_cpus", "library_settings"):
        unlike = _differ(pairs, column) & ((column != "held_cpus") | ~_differ(pairs, "device"))
        if unlike.any():
            values = sorted({*pd.concat(of_both(pairs[unlike], column))})
            named = " and ".join(str(value) or "none" for value in values)
            return f"{WITHHELD}{REPEATED[column]} differ in {unlike.sum()} of {len(pairs)} pairs ({named})"
    return ""


def withheld_for_target(pairs: pd.DataFrame, metric: str) -> str:
    """Runs never reached the target. Without these, a trainer that seldom reaches it would look fast."""
    first, second = of_both(pairs, metric)
    unreached = first.isna() | second.isna()
    if metric != "target_seconds" or not unreached.any():
        return ""
    return f"{WITHHELD}in {unreached.sum()} of {len(pairs)} pairs a run never reached the target accuracy"


def withheld_for_waiting(pairs: pd.DataFrame, share: str) -> str:
    """A trainer waited for data. Of each the median over its runs counts, so that no pair enters or is left out because
    of its own time.

    share: the column of the share of the time that a run waited; "" if waiting does not change what is compared.
    """
    first, second = (max(0, one.median()) for one in of_both(pairs, share)) if share else (0, 0)  # 0 for NaN
    if max(first, second) <= WAITING_LIMIT:
        return ""
    return f"{WITHHELD}waited for data ({100 * first:.0f} % and {100 * second:.0f} % of the time)"


def notes(pairs: pd.DataFrame) -> list[str]:
    """Sentences on what else the runs of the pairs do not share: the call of snakemake, the host, the packages."""
    same_environment = ~_differ(pairs, "environment")  # between environments packages differ intentionally
    differences = {
        "were trained in different calls of snakemake": _differ(pairs, "calls"),
        "were trained on different hosts": _differ(pairs, "host"),
        "have different packages": _differ(pairs, "packages_sha256") & same_environment,
    }
    counts = {name: max(one.nunique() for one in of_both(pairs, column)) for column, name in REPEATED.items()}
    return [
        *(f"in {one.sum()} of {len(pairs)} pairs the runs {what}" for what, one in differences.items() if one.any()),
        *(f"the repeats of one trainer have {count} different {name}" for name, count in counts.items() if count > 1),
    ]


def _differ(pairs: pd.DataFrame, column: str) -> pd.Series:
    first, second = of_both(pairs, column)
    return first != second
