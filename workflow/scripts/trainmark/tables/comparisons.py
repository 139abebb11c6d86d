"""Two trainers side by side: did they train the same thing, and is one of them faster?

A trainer is a framework on a device. Runs are paired by repeat: the same initial weights and the same batches, trained
near each other in an order in which repeats are blocks, so that a machine that drifts favours neither side. Only a pair
whose certificate says that it trains the same network is ranked.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from trainmark.parity.certificate import MISSING, pair_of
from trainmark.parity.compare import NOT_CERTIFIED, REFUSED
from trainmark.parity.sentences import EQUAL
from trainmark.plan.matrix import certified_groups
from trainmark.plan.run import trainer_name
from trainmark.tables.comparability import (
    CENSORED_PAIR,
    FACTS,
    counted,
    left_out,
    notes,
    other_machines,
    too_many_disturbed,
)
from trainmark.tables.formatting import format_ratio, format_versions
from trainmark.tables.serial import ratio_interval
from trainmark.tables.statistics import (
    LEAST_FOR_INTERVAL,
    largest_relative_difference,
    median_and_range,
)
from trainmark.tables.tables import GROUP, groups

COMPARED = ("training_seconds", "steady_epoch_seconds")
"""Figures of METRICS that get a verdict."""

SIDES = ("first", "second")
SUFFIXES = ("_first", "_second")

INTERVAL = ("ratio", "low", "high")
"""Figures of a comparison that there are not always."""

Certificates = Mapping[tuple[str, str, str], Mapping]
"""Certificates by (experiment, recipe, dataset)."""


def groups_to_certify(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(experiment, recipe, dataset) of each group of runs that has two trainers at the least."""
    return list(certified_groups(runs.itertuples()))


def comparisons_table(
    runs: pd.DataFrame, certificates: Certificates, wrong: Mapping[tuple[str, ...], str] = MappingProxyType({})
) -> pd.DataFrame:
    """Is the second trainer slower or faster than the first? One row an epoch setting, pair of trainers and metric.

    Pairs of trainers differ in their framework alone or in their device alone. ratio: the median over the pairs of runs
    of second / first; low, high: its interval at 95 % (`serial.ratio_interval`); NaN where there is none. left_out
    counts the pairs of which a run is censored, disturbed or without a time; left_out_reasons says why. The ids of the
    runs stand pair by pair. note: what a reader of the verdict has to know. parity, reason: the class of the pair of
    trainers and what its certificate says of it. verdict: see `_verdict` and comparability.py; where the class is one
    of REFUSED, or the machines are unlike, there is no ratio either. wrong: of
    `run_checks.wrong_pairs`.
    """
    rows = []
    for values, group in groups(runs, [*GROUP, "epochs"]):
        by_trainer = {
            trainer: figures[["repeat", "id", *FACTS, *COMPARED]]
            for trainer, figures in groups(group, ["framework", "device"])
        }
        certificate = certificates.get(values[: len(GROUP)])
        for first, second in combinations(by_trainer, 2):
            pairs = by_trainer[first].merge(by_trainer[second], on="repeat", suffixes=SUFFIXES)
            if len(pairs) and _differ_in_one(first, second):
                names = dict(
                    zip([*GROUP, "epochs", *SIDES], [*values, trainer_name(*first), trainer_name(*second)], strict=True)
                )
                parity = (
                    _wrong(wrong.get((*values[: len(GROUP)], names["first"], names["second"])))
                    or _outdated(certificate, group, (first, second))
                    or _parity(pair_of(certificate, names["first"], names["second"]))
                )
                rows += [
                    names | {"metric": metric} | _comparison(pairs, metric, parity["parity"]) | parity
                    for metric in COMPARED
                ]
    columns = [*GROUP, "epochs", *SIDES, "metric", "pairs", "left_out", *INTERVAL, "verdict", "parity", "reason"]
    columns += ["note", "left_out_reasons"]
    table = pd.DataFrame(rows, columns=[*columns, "run_ids", "left_out_run_ids"])
    return table.astype(dict.fromkeys(INTERVAL, "float64"))


def _differ_in_one(first: tuple[str, str], second: tuple[str, str]) -> bool:
    return sum(a != b for a, b in zip(first, second, strict=True)) == 1


def _parity(pair: Mapping | None) -> dict[str, str]:
    """Class and reason of a pair of a certificate; None where there is none."""
    if pair is None:
        return {"parity": NOT_CERTIFIED, "reason": MISSING}
    return {"parity": pair["parity"], "reason": pair["sentence"]}


def _wrong(sentence: str | None) -> dict[str, str] | None:
    """Class and reason of two trainers whose runs themselves are wrong."""
    return {"parity": "different", "reason": sentence} if sentence else None


def _outdated(certificate: Mapping | None, runs: pd.DataFrame, trainers: Iterable[tuple[str, str]]) -> dict | None:
    """What is said of two trainers where one was certified with other packages than its runs have; else None."""
    certified = {(one["framework"], one["device"]): one["versions"] for one in (certificate or {}).get("trainers", [])}
    for framework, device in trainers:
        ran = runs[(runs["framework"] == framework) & (runs["device"] == device) & (runs["status"] == "ok")]["versions"]
        wanted = format_versions(certified.get((framework, device), {}))
        others = sorted(set(ran) - {wanted})
        if wanted and others:
            reason = (
                f"{NOT_CERTIFIED}: {trainer_name(framework, device)} was certified with {wanted}, and runs have "
                f"{' or '.join(others)}; delete the certificate, or those records, and run snakemake again"
            )
            return {"parity": NOT_CERTIFIED, "reason": reason}
    return None


def _comparison(pairs: pd.DataFrame, metric: str, parity: str) -> dict:
    """The figures of one pair of trainers from its pairs of runs, in the order of their repeats."""
    reasons = left_out(pairs, metric)
    uncensored = pairs[reasons != CENSORED_PAIR]
    kept = pairs[reasons == ""].sort_values("repeat")
    measured = kept[kept[[f"{metric}_first", f"{metric}_second"]].notna().all(axis=1)]
    ratios = measured[f"{metric}_second"] / measured[f"{metric}_first"]
    refused = f"refused: {parity}" if parity in REFUSED else other_machines(uncensored)
    interval, widened = (None, "") if refused else ratio_interval(ratios.tolist())
    low, high = interval or (None, None)
    withheld = too_many_disturbed(reasons, len(measured), LEAST_FOR_INTERVAL)
    return {
        "pairs": len(measured),
        "left_out": int((reasons != "").sum()),
        "ratio": ratios.median() if len(ratios) and not refused else None,
        "low": low,
        "high": high,
        "verdict": refused or withheld or _verdict(len(measured), not uncensored.empty, interval),
        "note": "; ".join(filter(None, (*notes(measured if len(measured) else uncensored), widened))),
        "run_ids": _ids(measured),
        "left_out_run_ids": _ids(pairs[reasons != ""]),
        "left_out_reasons": counted(reasons),
    }


def _ids(pairs: pd.DataFrame) -> str:
    return " ".join(f"{first} {second}" for first, second in zip(pairs["id_first"], pairs["id_second"], strict=True))


def _verdict(pairs: int, any_ok: bool, interval: tuple[float, float] | None) -> str:
    """What the interval of second / first says of the second trainer; two-sided, at 5 %."""
    if interval:
        low, high = interval
        return "slower" if low > 1 else "faster" if high < 1 else "not distinguishable"
    if pairs:
        return f"too few pairs ({pairs}, needs {LEAST_FOR_INTERVAL})"
    return "not measured" if any_ok else "no pair"


def format_verdict(row: Mapping) -> str:
    """The verdict, and in the same sentence what a reader of it has to know."""
    return f"{row['verdict']} ({row['note']})" if row["note"] else row["verdict"]


def absent_word(verdict: str) -> str:
    """What stands in place of a ratio or an end of its interval that is not there: "too few pairs", "refused", ..."""
    return re.split(r" \(|:", verdict)[0]


def format_comparison(row: dict) -> str:
    """Ratio and interval as people read them: "1.10 (1.08 to 1.13)"; the ratio alone where there is no interval."""
    if pd.isna(row["ratio"]):
        return absent_word(row["verdict"])
    if pd.isna(row["low"]):
        return format_ratio(row["ratio"])
    return f"{format_ratio(row['ratio'])} ({format_ratio(row['low'])} to {format_ratio(row['high'])})"


def not_ranked(comparisons: pd.DataFrame) -> list[str]:
    """A heading, and a line for each two trainers that are not to be ranked; nothing where there are none."""
    refused = comparisons[comparisons["parity"].isin(REFUSED)].drop_duplicates([*SIDES, "parity", "reason"])
    lines = [f"{row['first']} and {row['second']}: {row['reason']}" for row in refused.to_dict("records")]
    return ["Not to be ranked:", *lines] if lines else []


def parity_note(comparisons: pd.DataFrame) -> str:
    """What a figure of one group has to say of its trainers, a line a sentence; empty where none are compared.

    A figure leaves the report, and shows trainers side by side all the same: which ones are not to be ranked stands in
    it, and otherwise the classes of all pairs.
    """
    if lines := not_ranked(comparisons):
        return "\n".join(lines)
    classes = [words for name, words in EQUAL.items() if name in set(comparisons["parity"])]
    return f"Certified in float64, every two that are compared: {' or '.join(classes)}" if classes else ""


def comparisons_csv(comparisons: pd.DataFrame) -> str:
    """The table as CSV, with a word in each cell that has no figure."""
    table = comparisons.astype(object)
    for column in INTERVAL:
        table[column] = table[column].where(comparisons[column].notna(), comparisons["verdict"].map(absent_word))
    return table.replace("", "none").to_csv(index=False)


def read_comparisons(path: Path) -> pd.DataFrame:
    """The table back from the CSV file that `comparisons_csv` was written to, NaN where there is no figure."""
    table = pd.read_csv(path, keep_default_na=False)
    for column in INTERVAL:
        table[column] = pd.to_numeric(table[column], errors="coerce").astype("float64")
    texts = ["run_ids", "left_out_run_ids", "note", "left_out_reasons"]
    return table.assign(**table[texts].astype("str").replace("none", ""))


def agreement_table(records: dict[str, dict]) -> pd.DataFrame:
    """How far the first steps' losses part between every two frameworks (or devices) that trained the same thing.

    Runs are compared that differ in framework and device alone: same initial weights, same batches. One row for each
    experiment, recipe, dataset and pair of trainers: the largest relative difference over the steps, as the median and
    the largest over the pairs of runs. `run_ids` lists the runs, pair by pair. Recipes with dropout are left out, since
    each framework draws its own masks, and so are runs that diverged or ran out of memory.
    """
    trainers: dict[tuple, dict[str, dict[tuple, tuple[str, list[float]]]]] = {}
    for record in records.values():
        run = record["run"]
        losses = [float(loss) for loss in record["step_losses"]]
        if losses and record["status"] == "ok" and not record["settings"]["dropout"]:
            group = trainers.setdefault(tuple(run[key] for key in GROUP), {})
            trainer = trainer_name(run["framework"], run["device"])
            group.setdefault(trainer, {})[(run["epochs"], run["repeat"])] = (run["id"], losses)
    rows = []
    for values, group in trainers.items():
        for first, second in combinations(group, 2):
            if group[first].keys() & group[second].keys():
                names = dict(zip(GROUP, values, strict=True)) | {"first": first, "second": second}
                rows.append(names | _agreement(group[first], group[second]))
    columns = [*GROUP, *SIDES, "steps", "pairs", "median", "largest", "run_ids"]
    return pd.DataFrame(rows, columns=columns)


def _agreement(first: dict[tuple, tuple[str, list[float]]], second: dict[tuple, tuple[str, list[float]]]) -> dict:
    """Figures of one pair of trainers from their (run id, step losses) by (epochs, repeat)."""
    common = [key for key in first if key in second]
    compared = [largest_relative_difference(first[key][1], second[key][1]) for key in common]
    median, _, largest = median_and_range([difference for difference, _ in compared])
    return {
        "steps": max(steps for _, steps in compared),
        "pairs": len(common),
        "median": median,
        "largest": largest,
        "run_ids": " ".join(f"{first[key][0]} {second[key][0]}" for key in common),
    }
