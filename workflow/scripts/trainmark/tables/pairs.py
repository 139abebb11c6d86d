"""Compares two sets of runs: is the second slower or faster than the first? Are its loss and accuracy lower or higher?

All comparisons are made here: of frameworks, devices, loops, numbers of workers, variants and commands. Runs are paired
by repeat. The two runs of a pair have the same initial weights and the same batches. They are also trained close in
time, because each repeat is a block in the order of training; so a machine that slows down favours neither.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.tables import comparability
from trainmark.tables.comparability import CENSORED_PAIR, RUN_COLUMNS, TOO_FEW, WITHHELD, of_both, with_all_cells
from trainmark.tables.formatting import NOT_MEASURED, format_ratio
from trainmark.tables.frames import ENDS, columns_of, number
from trainmark.tables.metrics import ALWAYS, AT_TARGET, COMPARED, NOT_DISTINGUISHABLE, OF_RESULTS, OF_VARIANTS
from trainmark.tables.paired import LEVEL, estimate, holm, paired_ratios
from trainmark.trainer import TRAINER, Trainer


@dataclass(frozen=True)
class Family:
    """Comparisons of one kind. Those of a group by one metric are corrected together (Holm).

    compared: by which metrics they are made (`Metric.compared`).
    times_together: whether those by all times are corrected together.
    ranks: whether they get verdicts. If not, ratios are given whatever the parity.
    """

    compared: tuple[str, ...] = (ALWAYS, AT_TARGET, OF_RESULTS, OF_VARIANTS)
    times_together: bool = False
    ranks: bool = True


FAMILIES = {"trainers": Family(), "variants": Family(times_together=True), "commands": Family((ALWAYS,), ranks=False)}


@dataclass(frozen=True)
class Pair:
    """Two sets of runs of a group at one number of epochs.

    first, second: their trainers; those of variants are named after them, as in "chainer with adam".
    runs: of each. parity, reason: the class of the pair, and a sentence.
    is_longest: whether this is the largest number of epochs.
    is_over_baseline: whether the first is the one with which all others of the group are compared.
    cells: how many pairs of runs a repeat has, one for each value of the column `cell`; if it is 1, there is no column.
    of_first: what the first has besides the name of its trainer. differing: the settings in which variants differ.
    """

    family: str
    group: tuple[str, str, str]
    epochs: int
    first: Trainer
    second: Trainer
    runs: tuple[pd.DataFrame, pd.DataFrame] = field(repr=False)
    parity: str
    reason: str
    is_longest: bool = False
    is_over_baseline: bool = False
    cells: int = 1
    of_first: str = ""
    differing: frozenset[str] = frozenset()

    @cached_property
    def matched(self) -> pd.DataFrame:
        """Their runs, a row for each repeat (and cell) that both have. The columns end in _first and _second."""
        on = ["repeat", "cell"] if self.cells > 1 else ["repeat"]
        columns = [*on, "number", "target_accuracy", "dropout", *RUN_COLUMNS, *COMPARED]
        return self.runs[0][columns].merge(self.runs[1][columns], on=on, suffixes=("_first", "_second"))

    @property
    def metrics(self) -> list[str]:
        """The metrics by which they are compared."""
        has_target = self.is_longest and self.matched["target_accuracy_first"].notna().any()
        have_results = self.family == "variants" or self.matched["dropout_first"].any()
        is_met = {ALWAYS: True, AT_TARGET: has_target, OF_RESULTS: have_results, OF_VARIANTS: self.family == "variants"}
        kinds = [kind for kind in FAMILIES[self.family].compared if is_met[kind]]
        found = [name for name, metric in COMPARED.items() if metric.compared in kinds]
        return [name for name in found if COMPARED[name].compared != OF_VARIANTS or self._both_measured(name)]

    def _both_measured(self, metric: str) -> bool:
        return bool(self.matched[[f"{metric}_first", f"{metric}_second"]].notna().all(axis=1).any())


def comparisons(pairs: Iterable[Pair]) -> list[dict]:
    """Compare pairs by all of their metrics: rows of numbers with the statistic "ratio". `pair` is in each, too."""
    rows = [_row(pair, metric) for pair in pairs if len(pair.matched) for metric in pair.metrics]
    families: dict[tuple, list[dict]] = {}
    for row in rows:
        if row["test"]:
            together = FAMILIES[row["pair"].family].times_together and COMPARED[row["metric"]].unit == "s"
            key = (row["pair"].family, row["pair"].group, "times" if together else row["metric"])
            families.setdefault(key, []).append(row)
    for family in families.values():
        for row, p_value in zip(family, holm([row["test"].p_value for row in family]), strict=True):
            verdict = COMPARED[row["metric"]].words[row["value"] > 1] if p_value <= LEVEL else NOT_DISTINGUISHABLE
            detectable = row["test"].detectable(LEVEL / len(family))
            if verdict == NOT_DISTINGUISHABLE:  # other verdicts hold whoever's work it is
                verdict = row["one_sided"] or verdict
            row |= {"verdict": verdict, "p_value": p_value, "compared": len(family), "detectable": detectable}
    return rows


def _row(pair: Pair, metric: str) -> dict:
    """The row that compares a pair by a metric, from its pairs of runs in the order of their repeats; if there is a
    `test`, without its verdict.

    The ratio of a repeat with several cells is the geometric mean of theirs: ratios of one repeat are not independent.
    A repeat that lacks a cell is left out, because a mean of the others is another one.
    """
    cells, ranks = pair.cells, FAMILIES[pair.family].ranks
    pairs = comparability.admitted(pair.matched, metric, cells).sort_values("repeat", kind="stable")
    reasons = pairs.groupby("repeat", sort=False)["excluded"].max()
    left_out, is_measured = reasons[reasons != ""], pairs["ratio"].notna()
    uncensored = with_all_cells(pairs[pairs["excluded"] != CENSORED_PAIR], cells)
    measured = with_all_cells(pairs[is_measured & (pairs["excluded"] == "")], cells)
    ratios, lower, upper = (list(_of_repeats(measured, end, cells)) for end in ("ratio", "lower", "upper"))
    bounded = measured["repeat"][measured["is_bounded"]].nunique()
    refused = _refused(pair, metric, uncensored, measured)
    withheld = (
        comparability.withheld_for_disturbance(reasons, len(ratios)) if is_measured[uncensored.index].any() else ""
    )
    paired = None if refused else paired_ratios(ratios, (lower, upper) if bounded else None)
    absent = "no pair" if uncensored.empty else NOT_MEASURED
    if ratios:
        absent = f"{TOO_FEW} ({len(ratios)}, needs {LEAST_PAIRS})" if ranks else "not ranked"
    about = [*comparability.notes(measured if len(measured) else uncensored), paired.note if paired else ""]
    if cells > 1 and ratios and not refused:
        note, opposite = _of_cells([own["ratio"].tolist() for _, own in measured.groupby("cell")])
        about, withheld = [*about, note], withheld or opposite
    own = columns_of(pair.group, pair.second)
    own |= {"epochs": pair.epochs, "compared_with": pair.first.name + pair.of_first}
    own |= {"pair": pair, "parity": pair.parity, "reason": pair.reason, "note": "; ".join(filter(None, about))}
    own |= {"runs": len(ratios), "run_numbers": _numbers(measured), "left_out": len(left_out)}
    own["left_out_reasons"] = "; ".join(f"{count} {reason}" for reason, count in Counter(left_out).items())
    own |= {"left_out_run_numbers": _numbers(pairs[pairs["excluded"] != ""]), "bounded": bounded}
    names = pair.first.name, pair.second.name
    own["one_sided"] = comparability.withheld_for_one_sided_load(measured, *names) if bounded else ""
    own |= {"test": paired if ranks and not withheld else None, "verdict": refused or withheld or absent}
    ends = [estimate(ratios), *(paired.interval() if paired else ())] if ratios and not refused else ()
    return number(own, "ratio", metric, "1", ends)


def _refused(pair: Pair, metric: str, uncensored: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Why the ratio of a pair is not given; "" if it is. uncensored, measured: its pairs of runs that are."""
    ranks = FAMILIES[pair.family].ranks
    if ranks and pair.parity in REFUSED:
        return f"refused: {pair.parity}"
    refused = comparability.withheld_for_target(uncensored, metric)
    if not COMPARED[metric].is_lasting:
        refused = refused or comparability.withheld_for_machines(uncensored)
    # What a command reports includes its loading, and is given beside that of a training.
    return refused or (comparability.withheld_for_waiting(measured, COMPARED[metric].waited) if ranks else "")


def _of_cells(ratios: Sequence[Sequence[float]]) -> tuple[str, str]:
    """A note on the ratios of cells, and why a verdict on their mean is withheld; "" if it hides no opposite ones."""
    least, most = (format_ratio(end(map(estimate, ratios))) for end in (min, max))
    intervals = [paired.interval() for paired in map(paired_ratios, ratios) if paired]
    opposite = any(low > 1 for low, _ in intervals) and any(high < 1 for _, high in intervals)
    withheld = f"{WITHHELD}some cells have a ratio above 1, others one below 1" if opposite else ""
    return f"mean of {len(ratios)} cells, whose ratios are {least} to {most}", withheld


def _of_repeats(pairs: pd.DataFrame, column: str, cells: int) -> pd.Series:
    """The geometric mean of a column over the cells of each repeat."""
    return pairs.groupby("repeat", sort=False)[column].prod() ** (1 / cells)


def _numbers(pairs: pd.DataFrame) -> str:
    """The numbers of the runs, pair by pair."""
    return " ".join(f"{first} {second}" for first, second in zip(*of_both(pairs, "number"), strict=True))


# --- what follows from ratios ---------------------------------------------------------------------------------------


def speed_ups(ratios: Iterable[Mapping]) -> list[dict]:
    """How many times as fast as its baseline is each trainer? 1 / the ratio of their training times."""
    of_times = (row for row in ratios if row["metric"] == "training_seconds" and row["pair"].is_over_baseline)
    return [_inverse(row, "speed_up") for row in of_times]


def scaling(ratios: Iterable[Mapping]) -> list[dict]:
    """How many times as fast several workers are, over the fewest that their trainer was compared with, and which share
    of perfect scaling that is: strong scaling with the same batch of all together, weak with the same batch of each.

    Of variants, the first with as many workers counts; in strong scaling they must differ in nothing else.
    """
    found: dict[tuple, dict[tuple[int, int], list[dict]]] = {}
    for row in ratios:
        pair = row["pair"]
        if pair.family == "commands" or COMPARED[row["metric"]].compared != ALWAYS:
            continue
        sides = zip((pair.first, pair.second), pair.runs, strict=True)
        (fewer, few_runs), (more, more_runs) = sorted(sides, key=lambda one: one[0].workers)
        same, own = (columns_of(pair.group, one) | {"variant": "", "workers": more.workers} for one in (fewer, more))
        if same != own or fewer.workers == more.workers:
            continue
        factor = more.workers / fewer.workers
        kind = {1: "strong", factor: "weak"}.get(more_runs["batch_size"].iloc[0] / few_runs["batch_size"].iloc[0])
        if not kind or (kind == "strong" and pair.differing - {"workers"}):
            continue
        faster = _inverse(row, f"{kind}_speed_up") if pair.second == more else {**row, "statistic": f"{kind}_speed_up"}
        faster |= own | {"compared_with": fewer._replace(framework=own["framework"]).name}
        share = {end: None if faster[end] is None else faster[end] / factor for end in ENDS}
        rows = [faster, faster | share | {"statistic": f"{kind}_efficiency"}]
        of = (pair.group, pair.epochs, *(own[key] for key in TRAINER[:-1]), kind, row["metric"])
        found.setdefault(of, {}).setdefault((fewer.workers, more.workers), rows)
    return [row for own in found.values() for of, rows in own.items() if of[0] == min(own)[0] for row in rows]


def _inverse(row: Mapping, statistic: str) -> dict:
    """The row of the inverse of a ratio."""
    ends = (None if row[end] is None else 1 / row[end] for end in ("value", "high", "low"))
    return {**row, "statistic": statistic, **dict(zip(ENDS, ends, strict=True))}
