"""Compares trainers pair by pair: did they train the same network, and is one of them faster?

A trainer is a framework on a device. Runs are paired by repeat. The two runs of a pair have the same initial weights
and the same batches. They are also trained close in time, because each repeat is a block in the order of training; so a
machine that slows down favours neither. A pair is ranked only if its certificate shows that it trains the same network.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import isinf
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from trainmark.parity.certificate import MISSING, pair_of
from trainmark.parity.compare import NOT_CERTIFIED, REFUSED
from trainmark.parity.sentences import EQUAL
from trainmark.plan.matrix import certified_groups
from trainmark.plan.run import trainer_name
from trainmark.recipes.command import DATASET, FRAMEWORK
from trainmark.tables.comparability import (
    CENSORED_PAIR,
    RUN_COLUMNS,
    count_reasons,
    exclusion_reasons,
    notes,
    withheld_for_disturbance,
    withheld_for_machines,
)
from trainmark.tables.formatting import format_ratio, format_versions
from trainmark.tables.paired import LEAST_PAIRS, LEVEL, estimate, holm, paired_ratios
from trainmark.tables.statistics import largest_relative_difference, median_and_range
from trainmark.tables.tables import GROUP, groups
from trainmark.tables.waiting import withheld_for_waiting

COMPARED = ("training_seconds", "steady_epoch_seconds")
"""The metrics that get a verdict; keys of METRICS."""

SIDES = ("first", "second")
SUFFIXES = ("_first", "_second")

INTERVAL = ("ratio", "low", "high")
"""Columns of the ratio and the ends of its interval."""

NUMBERS = (*INTERVAL, "p_value", "compared", "detectable")
"""Columns that may be missing (NaN) in a comparison."""

COLUMNS_OF_PAIRS = ["repeat", "id", *RUN_COLUMNS, *COMPARED]

OF_COMMAND = {
    "parity": NOT_CERTIFIED,
    "reason": f"{NOT_CERTIFIED}: nothing shows that a command trains the same network; its epochs hold all that it "
    "does in them, such as its own evaluation",
}
"""Parity class and reason of every comparison with a command."""

Certificates = Mapping[tuple[str, str, str], Mapping]
"""Certificates by (experiment, recipe, dataset)."""


def groups_to_certify(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(experiment, recipe, dataset) of each group of runs that has at least two trainers."""
    return list(certified_groups(runs.itertuples()))


def comparisons_table(
    runs: pd.DataFrame, certificates: Certificates, wrong: Mapping[tuple[str, ...], str] = MappingProxyType({})
) -> pd.DataFrame:
    """Compare trainers: is the second slower or faster than the first?

    The table has one row per number of epochs, pair of trainers and metric. The trainers of a pair differ either in
    their framework or in their device, not in both. wrong: from `run_checks.wrong_pairs`.

    Columns of the result, besides those that identify the row:

    pairs: number of pairs of runs that enter the ratio.
    left_out: number of pairs left out because a run is censored, is disturbed or has a time of 0.
    left_out_reasons: how many pairs were left out for which reason.
    ratio: second / first, estimated from the pairs (paired.py); missing without pairs, or if parity, machines or
        waiting for data forbid it.
    low, high: the 95 % interval of the ratio; also missing if there are too few pairs.
    p_value: probability of a ratio this far from 1 if both are equally fast, corrected for the number of `compared`.
    compared: number of verdicts of the group on this metric.
    detectable: smallest ratio above 1 that would have been found in 4 of 5 cases.
    verdict: see `_add_verdicts` and comparability.py.
    parity, reason: the parity class of the two trainers, and the sentence of their certificate.
    note: what a reader of the verdict must know about the runs.
    run_ids, left_out_run_ids: ids of the runs, pair by pair.
    """
    rows = []
    of_commands = runs["framework"] == FRAMEWORK
    for values, group in groups(runs[~of_commands], [*GROUP, "epochs"]):
        by_trainer = {
            trainer: trainer_runs[COLUMNS_OF_PAIRS] for trainer, trainer_runs in groups(group, ["framework", "device"])
        }
        certificate = certificates.get(values[: len(GROUP)])
        for first, second in combinations(by_trainer, 2):
            pairs = by_trainer[first].merge(by_trainer[second], on="repeat", suffixes=SUFFIXES)
            if len(pairs) and _differ_in_one(first, second):
                names = dict(
                    zip([*GROUP, "epochs", *SIDES], [*values, trainer_name(*first), trainer_name(*second)], strict=True)
                )
                parity = (
                    _wrong_runs(wrong.get((*values[: len(GROUP)], names["first"], names["second"])))
                    or _other_packages(certificate, group, (first, second))
                    or _parity(pair_of(certificate, names["first"], names["second"]))
                )
                rows += [
                    names | {"metric": metric} | _comparison(pairs, metric, parity["parity"]) | parity
                    for metric in COMPARED
                ]
    _add_verdicts(rows)
    rows += _command_rows(runs[of_commands], runs[~of_commands])
    columns = [*GROUP, "epochs", *SIDES, "metric", "pairs", "left_out", *NUMBERS, "verdict", "parity", "reason"]
    columns += ["note", "left_out_reasons"]
    table = pd.DataFrame(rows, columns=[*columns, "run_ids", "left_out_run_ids"])
    return table.astype(dict.fromkeys(NUMBERS, "float64"))


def _add_verdicts(rows: Iterable[dict]) -> None:
    """Add corrected p-values and verdicts on the second trainer to rows whose ratios were tested.

    All pairs of trainers of a group, at all numbers of epochs, are corrected together, each metric by itself.
    """
    families: dict[tuple, list[dict]] = {}
    for row in rows:
        if row["test"]:
            families.setdefault(tuple(row[key] for key in (*GROUP, "metric")), []).append(row)
    for family in families.values():
        for row, p_value in zip(family, holm([row["test"].p_value for row in family]), strict=True):
            found = "slower" if row["ratio"] > 1 else "faster"
            row["verdict"] = found if p_value <= LEVEL else "not distinguishable"
            row |= {"p_value": p_value, "compared": len(family)}
            row["detectable"] = row["test"].detectable(LEVEL / len(family))


def _command_rows(commands: pd.DataFrame, trainings: pd.DataFrame) -> Iterator[dict]:
    """Compare each command with the trainings of its experiment on the same device: ratios, but no verdict."""
    same = ["experiment", "epochs", "device"]
    for (experiment, epochs, device), group in groups(commands, same):
        beside = trainings[(trainings[same] == [experiment, epochs, device]).all(axis=1)]
        for (command,), of_command in groups(group, ["recipe"]):
            for (recipe, dataset, framework), of_trainer in groups(beside, ["recipe", "dataset", "framework"]):
                pairs = of_trainer[COLUMNS_OF_PAIRS].merge(of_command[COLUMNS_OF_PAIRS], on="repeat", suffixes=SUFFIXES)
                for metric in COMPARED if len(pairs) else ():
                    compared = _comparison(pairs, metric, OF_COMMAND["parity"], ranks=False)
                    yield {
                        "experiment": experiment,
                        "recipe": command,
                        "dataset": DATASET,
                        "epochs": epochs,
                        "first": f"{trainer_name(framework, device)} ({recipe} on {dataset})",
                        "second": trainer_name(FRAMEWORK, device),
                        "metric": metric,
                        **compared,
                        **OF_COMMAND,
                    }


def _differ_in_one(first: tuple[str, str], second: tuple[str, str]) -> bool:
    return sum(a != b for a, b in zip(first, second, strict=True)) == 1


def _parity(pair: Mapping | None) -> dict[str, str]:
    """Parity class and reason of a certified pair. pair: its entry in the certificate; None if it has none."""
    if pair is None:
        return {"parity": NOT_CERTIFIED, "reason": MISSING}
    return {"parity": pair["parity"], "reason": pair["sentence"]}


def _wrong_runs(sentence: str | None) -> dict[str, str] | None:
    """Parity class and reason of two trainers whose runs themselves contradict the certificate; else None."""
    return {"parity": "different", "reason": sentence} if sentence else None


def _other_packages(
    certificate: Mapping | None, runs: pd.DataFrame, trainers: Iterable[tuple[str, str]]
) -> dict | None:
    """Parity class and reason if a trainer was certified with other package versions than its runs have; else None."""
    certified = {(one["framework"], one["device"]): one["versions"] for one in (certificate or {}).get("trainers", [])}
    for framework, device in trainers:
        ran = runs[(runs["framework"] == framework) & (runs["device"] == device) & (runs["status"] == "ok")]["versions"]
        certified_versions = format_versions(certified.get((framework, device), {}))
        others = sorted(set(ran) - {certified_versions})
        if certified_versions and others:
            reason = (
                f"{NOT_CERTIFIED}: {trainer_name(framework, device)} was certified with {certified_versions}, but its "
                f"runs have {' or '.join(others)}; delete the certificate, or those records, and run snakemake again"
            )
            return {"parity": NOT_CERTIFIED, "reason": reason}
    return None


def _comparison(pairs: pd.DataFrame, metric: str, parity: str, *, ranks: bool = True) -> dict:
    """Compare one pair of trainers by its pairs of runs, in the order of their repeats.

    ranks: whether there is a verdict. If not, the ratio is given whatever the parity.
    """
    reasons = exclusion_reasons(pairs, metric)
    uncensored = pairs[reasons != CENSORED_PAIR]
    included = pairs[reasons == ""].sort_values("repeat")
    measured = included[included[[f"{metric}_first", f"{metric}_second"]].notna().all(axis=1)]
    ratios = measured[f"{metric}_second"] / measured[f"{metric}_first"]
    refused = f"refused: {parity}" if ranks and parity in REFUSED else withheld_for_machines(uncensored)
    if ranks and not refused:  # what a command reports includes its loading, and is given beside that of a training
        refused = withheld_for_waiting(measured, metric)
    withheld = withheld_for_disturbance(reasons, len(measured), LEAST_PAIRS)
    paired = None if refused else paired_ratios(ratios.tolist())
    low, high = paired.interval() if paired else (None, None)
    about = (*notes(measured if len(measured) else uncensored), paired.note if paired else "")
    return {
        "pairs": len(measured),
        "left_out": int((reasons != "").sum()),
        "ratio": estimate(ratios.tolist()) if len(ratios) and not refused else None,
        "low": low,
        "high": high,
        "test": paired if ranks and not withheld else None,
        "verdict": refused or withheld or _no_verdict(len(measured), not uncensored.empty, ranks),
        "note": "; ".join(filter(None, about)),
        "run_ids": _ids(measured),
        "left_out_run_ids": _ids(pairs[reasons != ""]),
        "left_out_reasons": count_reasons(reasons),
    }


def _ids(pairs: pd.DataFrame) -> str:
    return " ".join(f"{first} {second}" for first, second in zip(pairs["id_first"], pairs["id_second"], strict=True))


def _no_verdict(pairs: int, any_ok: bool, ranks: bool) -> str:
    """What stands in place of a verdict, until there is one."""
    if pairs:
        return f"too few pairs ({pairs}, needs {LEAST_PAIRS})" if ranks else "not ranked"
    return "not measured" if any_ok else "no pair"


def format_verdict(row: Mapping) -> str:
    """The verdict with its notes: "slower (in 1 of 6 pairs ...)"."""
    about = verdict_notes(row)
    return f"{row['verdict']} ({about})" if about else row["verdict"]


def verdict_notes(row: Mapping) -> str:
    """What a reader of the verdict must know; "" for nothing."""
    return "; ".join(filter(None, (_left_open(row), row["note"])))


def _left_open(row: Mapping) -> str:
    """What "not distinguishable" leaves open: the ratio that would have been found; "" for other verdicts."""
    if row["verdict"] != "not distinguishable":
        return ""
    if isinf(row["detectable"]):
        return f"{row['pairs']} pairs are too few for {row['compared']:.0f} comparisons"
    found = f"a ratio of {format_ratio(row['detectable'])} would have been found in 4 of 5 cases"
    if row["low"] <= 1 <= row["high"]:
        return found
    return f"among {row['compared']:.0f} comparisons, such an interval occurs by chance; {found}"


def absent_word(verdict: str) -> str:
    """The text shown in place of a missing ratio or interval: "too few pairs", "refused", ..."""
    return re.split(r" \(|:", verdict)[0]


def format_comparison(row: dict) -> str:
    """Format ratio and interval: "1.10 (1.08 to 1.13)"; only the ratio if there is no interval."""
    if pd.isna(row["ratio"]):
        return absent_word(row["verdict"])
    if pd.isna(row["low"]):
        return format_ratio(row["ratio"])
    return f"{format_ratio(row['ratio'])} ({format_ratio(row['low'])} to {format_ratio(row['high'])})"


def not_ranked(comparisons: pd.DataFrame) -> list[str]:
    """A heading, then a line for each pair of trainers that must not be ranked; empty if there is none."""
    refused = comparisons[comparisons["parity"].isin(REFUSED)].drop_duplicates([*SIDES, "parity", "reason"])
    lines = [f"{row['first']} and {row['second']}: {row['reason']}" for row in refused.to_dict("records")]
    return ["Not to be ranked:", *lines] if lines else []


def parity_note(comparisons: pd.DataFrame) -> str:
    """The note on parity below a figure of one group; empty if no trainers are compared.

    The note names the pairs that must not be ranked. If there are none, it gives the parity classes of all pairs. It is
    part of the figure because figures are used outside the report.
    """
    if lines := not_ranked(comparisons):
        return "\n".join(lines)
    classes = [words for name, words in EQUAL.items() if name in set(comparisons["parity"])]
    return f"Parity of all compared pairs (float64): {' or '.join(classes)}" if classes else ""


def read_comparisons(path: Path) -> pd.DataFrame:
    """Read the table from its CSV file. An empty cell in a column of numbers becomes NaN."""
    table = pd.read_csv(path, keep_default_na=False, na_values={column: [""] for column in NUMBERS})
    return table.astype(dict.fromkeys(NUMBERS, "float64"))


def agreement_table(records: dict[str, dict]) -> pd.DataFrame:
    """How far the losses of the first steps differ between trainers.

    Compared are runs that differ only in framework and device, and so have the same initial weights and batches. The
    table has one row per experiment, recipe, dataset and pair of trainers. Of each pair of runs it takes the largest
    relative difference over the steps; "median" and "largest" are taken over the pairs of runs. `run_ids` lists the
    runs, pair by pair. Runs with dropout are left out, because each framework draws its own masks; so are runs that
    diverged or ran out of memory.
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
    """Compare two trainers by their runs. first, second: (run id, step losses) by (epochs, repeat)."""
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
