"""Compares trainers pair by pair: did they train the same network, and is one of them faster or better?

A trainer is a framework on a device, with a loop. Runs are paired by repeat. The two runs of a pair have the same
initial weights and the same batches. They are also trained close in time, because each repeat is a block in the order
of training; so a machine that slows down favours neither. A pair is ranked only if its certificate shows that it trains
the same network.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from trainmark.parity.certificate import MISSING, pair_of
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES, REFUSED
from trainmark.plan.matrix import LEAST_PAIRS, certified_groups
from trainmark.plan.run import Run
from trainmark.recipes.command import DATASET, FRAMEWORK
from trainmark.tables.comparability import (
    CENSORED_PAIR,
    RUN_COLUMNS,
    WITHHELD,
    count_reasons,
    exclusion_reasons,
    notes,
    withheld_for_disturbance,
    withheld_for_machines,
    withheld_for_target,
)
from trainmark.tables.formatting import format_ratio, format_versions
from trainmark.tables.paired import LEVEL, estimate, holm, paired_ratios
from trainmark.tables.tables import GROUP, by_trainer, groups, read_table, rows_of
from trainmark.tables.waiting import SHARES, withheld_for_waiting
from trainmark.trainer import TRAINER, Trainer

COMPARED = ("training_seconds", "steady_epoch_seconds")
"""The metrics that get a verdict in every group; keys of METRICS, as the following ones."""

WITH_DROPOUT = ("test_loss", "test_accuracy")
"""Those that also get one between variants, and if each framework draws its own dropout masks; else they are equal up
to rounding. `target_seconds` gets one in a group with a target accuracy, at its largest number of epochs."""

OF_TIMES = ("faster", "slower")

WORDS = dict.fromkeys(WITH_DROPOUT, ("lower", "higher"))
"""The verdicts on a metric that is no time; those on a time are OF_TIMES."""

SIDES = ("first", "second")
SUFFIXES = ("_first", "_second")

INTERVAL = ("ratio", "low", "high")
"""Columns of the ratio and the ends of its interval."""

NUMBERS = (*INTERVAL, "p_value", "compared", "detectable")
"""Columns that may be missing (NaN) in a comparison."""

COLUMNS_OF_PAIRS = [
    "repeat",
    "id",
    "target_accuracy",
    "dropout",
    *RUN_COLUMNS,
    *COMPARED,
    "target_seconds",
    *WITH_DROPOUT,
]

OTHER_SETTINGS = "other settings"
"""What stands in place of the parity class of two variants (variants.py)."""

NOT_DISTINGUISHABLE = "not distinguishable"
"""The verdict on an interval that contains 1."""

VERDICTS = {*OF_TIMES, *chain(*WORDS.values()), NOT_DISTINGUISHABLE}
"""All verdicts. Other texts in their column say why there is none."""

TOO_FEW = "too few pairs"
"""Beginning of what stands in place of a verdict if repeats are too few."""

OF_COMMAND = {
    "parity": NOT_CERTIFIED,
    "reason": f"{NOT_CERTIFIED}: nothing shows that a command trains the same network; its epochs hold all that it "
    "does in them, such as its own evaluation",
}
"""Parity class and reason of every comparison with a command."""

Certificates = Mapping[tuple[str, str, str], Mapping]
"""Certificates by (experiment, recipe, dataset)."""

NOTHING: Mapping = MappingProxyType({})


def groups_to_certify(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(experiment, recipe, dataset) of each group of runs that has at least two trainers."""
    columns = [*GROUP, *TRAINER, "epochs", "repeat"]
    return list(certified_groups(Run.of(row) for row in rows_of(runs.drop_duplicates([*GROUP, *TRAINER])[columns])))


def baselines_of(runs: pd.DataFrame, experiments: Mapping[str, Mapping]) -> dict[tuple, str]:
    """The baseline of each group, such as "chainer on cpu": what its experiment names, or the group's first trainer.

    If all of its runs were censored, it is the first trainer that has a run which is ok.

    experiments: those of the config.
    """
    found = {}
    for values, group in groups(runs[runs["framework"] != FRAMEWORK], GROUP):
        is_ok = {trainer.name: (own["status"] == "ok").any() for trainer, own in by_trainer(group)}
        first = experiments.get(values[0], NOTHING).get("baseline") or next(iter(is_ok))
        found[values] = first if is_ok.get(first, True) else next((name for name, ok in is_ok.items() if ok), first)
    return found


def comparisons_table(
    runs: pd.DataFrame,
    certificates: Certificates,
    wrong: Mapping[tuple[str, ...], str] = NOTHING,
    experiments: Mapping[str, Mapping] = NOTHING,
) -> pd.DataFrame:
    """Compare trainers: is the second slower or faster than the first? Are its loss and accuracy lower or higher?

    The table has one row per number of epochs, pair of trainers and metric; its columns are in docs/columns.md. The
    trainers of a pair differ in exactly one of framework, device and loop, or one of them is the baseline, which then
    is the first.

    wrong: from `run_checks.wrong_pairs`.
    experiments: those of the config, which may name a baseline.
    """
    of_commands = runs["framework"] == FRAMEWORK
    most_epochs = runs.groupby(GROUP)["epochs"].max()
    baselines = baselines_of(runs, experiments)
    rows = [
        one.compared(metric)
        for one in paired_trainers(runs[~of_commands], certificates, wrong, baselines)
        if one.is_compared(baselines[one.group]) and len(one.pairs)
        for metric in metrics_of(one, is_longest=one.names["epochs"] == most_epochs[one.group])
    ]
    add_verdicts(rows)
    return as_table([*rows, *_command_rows(runs[of_commands], runs[~of_commands])])


def as_table(rows: Sequence[Mapping]) -> pd.DataFrame:
    """Rows of comparisons as a table with the columns of `comparisons_table`."""
    columns = [*GROUP, "epochs", *SIDES, "metric", "pairs", "left_out", *NUMBERS, "verdict", "parity", "reason"]
    columns += ["note", "left_out_reasons"]
    table = pd.DataFrame(rows, columns=[*columns, "run_ids", "left_out_run_ids"])
    return table.astype(dict.fromkeys(NUMBERS, "float64"))


def parity_table(
    runs: pd.DataFrame,
    certificates: Certificates,
    wrong: Mapping[tuple[str, ...], str] = NOTHING,
    experiments: Mapping[str, Mapping] = NOTHING,
) -> pd.DataFrame:
    """Do two trainers train the same network? A row for every pair of trainers of a group, compared or not.

    The arguments are those of `comparisons_table`. `parity` and `reason` are the worst over the numbers of epochs.
    """
    worst: dict[tuple, Mapping[str, str]] = {}
    order = [*PARITY_CLASSES, NOT_CERTIFIED]
    trained = runs[runs["framework"] != FRAMEWORK]
    for one in paired_trainers(trained, certificates, wrong, baselines_of(runs, experiments)):
        names = (*one.group, *(one.names[side] for side in SIDES))
        worst[names] = max(worst.get(names, one.parity), one.parity, key=lambda parity: order.index(parity["parity"]))
    rows = [[*names, *parity.values()] for names, parity in worst.items()]
    return pd.DataFrame(rows, columns=[*GROUP, *SIDES, "parity", "reason"])


@dataclass(frozen=True)
class PairOfTrainers:
    """Two trainers of a group at one number of epochs.

    names: what identifies their rows in a table: GROUP, epochs, first, second.
    runs: those of each trainer.
    parity: parity class and reason.
    cells: how many pairs of runs a repeat has, one for each value of the column `cell`; if it is 1, there is no column.
    """

    names: Mapping[str, Any]
    runs: tuple[pd.DataFrame, pd.DataFrame]
    parity: Mapping[str, str]
    cells: int = 1

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Their runs with the columns of COLUMNS_OF_PAIRS, a row per repeat, and per cell, that both have."""
        cell = ["cell"] if self.cells > 1 else []
        first, second = (runs[[*cell, *COLUMNS_OF_PAIRS]] for runs in self.runs)
        return first.merge(second, on=["repeat", *cell], suffixes=SUFFIXES)

    @property
    def group(self) -> tuple[str, ...]:
        """Experiment, recipe and dataset."""
        return tuple(self.names[key] for key in GROUP)

    def is_compared(self, baseline: str) -> bool:
        """Whether the trainers differ in exactly one of their parts, or one of them is the baseline."""
        parts = zip(*(Trainer.named(self.names[side]) for side in SIDES), strict=True)
        return self.names["first"] == baseline or sum(bool(a != b) for a, b in parts) == 1

    def compared(self, metric: str) -> dict:
        """The row that compares them by a metric, without its verdict if it is tested (`add_verdicts`)."""
        compared = _comparison(self.pairs, metric, self.parity["parity"], cells=self.cells)
        return {**self.names, "metric": metric, **compared, **self.parity}


def paired_trainers(
    runs: pd.DataFrame,
    certificates: Certificates,
    wrong: Mapping[tuple[str, ...], str],
    baselines: Mapping[tuple, str],
) -> Iterator[PairOfTrainers]:
    """Yield each pair of trainers, a baseline as the first of its pairs. runs: without those of commands."""
    for values, group in groups(runs, [*GROUP, "epochs"]):
        of_group = values[: len(GROUP)]
        certificate = certificates.get(of_group)
        of_trainers = dict(by_trainer(group))
        other_packages = {trainer: _other_packages(certificate, trainer, own) for trainer, own in of_trainers.items()}
        for both in combinations(of_trainers, 2):
            first, second = sorted(both, key=lambda trainer: trainer.name != baselines[of_group])
            names = [first.name, second.name]
            sentence, pair = wrong.get((*of_group, *names)), pair_of(certificate, *names)
            parity = {"parity": NOT_CERTIFIED, "reason": MISSING}
            if sentence:  # the runs contradict the certificate
                parity = {"parity": "different", "reason": sentence}
            elif other := other_packages[first] or other_packages[second]:
                parity = other
            elif pair:
                parity = {"parity": pair["parity"], "reason": pair["sentence"]}
            identified = dict(zip([*GROUP, "epochs", *SIDES], [*values, *names], strict=True))
            yield PairOfTrainers(identified, (of_trainers[first], of_trainers[second]), parity)


def metrics_of(one: PairOfTrainers, *, is_longest: bool) -> Iterator[str]:
    """The metrics that get a verdict. is_longest: whether the runs have the largest number of epochs of their group."""
    yield from COMPARED
    if is_longest and one.pairs["target_accuracy_first"].notna().any():
        yield "target_seconds"
    if one.parity["parity"] == OTHER_SETTINGS or one.pairs["dropout_first"].any():
        yield from WITH_DROPOUT


def speed_ups_table(comparisons: pd.DataFrame, baselines: Mapping[tuple, str] | None = None) -> pd.DataFrame:
    """How many times as fast as the baseline is each trainer? A row per number of epochs and trainer.

    baselines: from `baselines_of`; None if all of these comparisons are with a baseline, as those of variants are.

    ratio, low, high: training time of the baseline / that of the trainer: 1 / those of `comparisons_table`.
    """
    rows = [
        {key: row[key] for key in (*GROUP, "epochs", "pairs", "verdict", "parity")}
        | Trainer.named(row["second"])._asdict()
        | {"baseline": row["first"], "ratio": 1 / row["ratio"], "low": 1 / row["high"], "high": 1 / row["low"]}
        for row in comparisons[comparisons["metric"] == COMPARED[0]].to_dict("records")
        if baselines is None or row["first"] == baselines.get(tuple(row[key] for key in GROUP))
    ]
    columns = [*GROUP, "epochs", *TRAINER, "baseline", "pairs", *INTERVAL, "verdict", "parity"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(INTERVAL, "float64"))


def add_verdicts(rows: Iterable[dict], together: Container[str] = ()) -> None:
    """Add corrected p-values and verdicts on the second trainer to rows whose ratios were tested.

    All pairs of trainers of a group, at all numbers of epochs, are corrected together, each metric by itself.

    together: metrics that are corrected as one.
    """
    families: dict[tuple, list[dict]] = {}
    for row in rows:
        if row["test"]:
            metric = "" if row["metric"] in together else row["metric"]
            families.setdefault((*(row[key] for key in GROUP), metric), []).append(row)
    for family in families.values():
        for row, p_value in zip(family, holm([row["test"].p_value for row in family]), strict=True):
            smaller, larger = WORDS.get(row["metric"], OF_TIMES)
            row["verdict"] = (larger if row["ratio"] > 1 else smaller) if p_value <= LEVEL else NOT_DISTINGUISHABLE
            row |= {"p_value": p_value, "compared": len(family)}
            row["detectable"] = row["test"].detectable(LEVEL / len(family))


def _command_rows(commands: pd.DataFrame, trainings: pd.DataFrame) -> Iterator[dict]:
    """Compare each command with the trainings of its experiment on the same device: ratios, but no verdict."""
    same = ["experiment", "epochs", "device"]
    for (experiment, epochs, device), group in groups(commands, same):
        beside = trainings[(trainings[same] == [experiment, epochs, device]).all(axis=1)]
        for (command,), of_command in groups(group, ["recipe"]):
            for (recipe, dataset, *trainer), of_trainer in groups(beside, ["recipe", "dataset", *TRAINER]):
                pairs = of_trainer[COLUMNS_OF_PAIRS].merge(of_command[COLUMNS_OF_PAIRS], on="repeat", suffixes=SUFFIXES)
                for metric in COMPARED if len(pairs) else ():
                    compared = _comparison(pairs, metric, OF_COMMAND["parity"], ranks=False)
                    yield {
                        "experiment": experiment,
                        "recipe": command,
                        "dataset": DATASET,
                        "epochs": epochs,
                        "first": f"{Trainer(*trainer).name} ({recipe} on {dataset})",
                        "second": Trainer(FRAMEWORK, device).name,
                        "metric": metric,
                        **compared,
                        **OF_COMMAND,
                    }


def _other_packages(certificate: Mapping | None, trainer: Trainer, runs: pd.DataFrame) -> dict | None:
    """Parity class and reason if a trainer was certified with other package versions than its runs have; else None."""
    certified = {Trainer.parse(one["trainer"]): one["versions"] for one in (certificate or {}).get("trainers", [])}
    certified_versions = format_versions(certified.get(trainer, {}))
    others = sorted(set(runs["versions"][runs["status"] == "ok"]) - {certified_versions})
    if not certified_versions or not others:
        return None
    reason = (
        f"{NOT_CERTIFIED}: {trainer.name} was certified with {certified_versions}, but its "
        f"runs have {' or '.join(others)}; delete the certificate, or those records, and run snakemake again"
    )
    return {"parity": NOT_CERTIFIED, "reason": reason}


def _comparison(pairs: pd.DataFrame, metric: str, parity: str, *, ranks: bool = True, cells: int = 1) -> dict:
    """Compare one pair of trainers by its pairs of runs, in the order of their repeats.

    The ratio of a repeat with several cells is the geometric mean of theirs: ratios of one repeat are not independent.
    A repeat that lacks a cell is left out, because a mean of the others is another one.

    ranks: whether there is a verdict. If not, the ratio is given whatever the parity.
    cells: see `PairOfTrainers`.
    """
    of_pairs = exclusion_reasons(pairs, metric)
    reasons = of_pairs.groupby(pairs["repeat"], sort=False).max()
    uncensored = _with_all_cells(pairs[of_pairs != CENSORED_PAIR], cells)
    included = pairs[of_pairs == ""].sort_values("repeat", kind="stable")
    both = [f"{metric}_first", f"{metric}_second"]
    measured = _with_all_cells(included[included[both].notna().all(axis=1)], cells)
    measured_ratios = measured[f"{metric}_second"] / measured[f"{metric}_first"]
    ratios = measured_ratios.groupby(measured["repeat"]).prod() ** (1 / cells)
    refused = f"refused: {parity}" if ranks and parity in REFUSED else withheld_for_target(uncensored, metric)
    if metric in SHARES and not refused:
        refused = withheld_for_machines(uncensored)
        if ranks and not refused:  # what a command reports includes its loading, and is given beside that of a training
            refused = withheld_for_waiting(measured, metric)
    is_measured = uncensored[both].notna().all(axis=1).any()
    withheld = withheld_for_disturbance(reasons, len(ratios), LEAST_PAIRS) if is_measured else None
    paired = None if refused else paired_ratios(ratios.tolist())
    low, high = paired.interval() if paired else (None, None)
    absent = "no pair" if uncensored.empty else "not measured"
    if len(ratios):
        absent = f"{TOO_FEW} ({len(ratios)}, needs {LEAST_PAIRS})" if ranks else "not ranked"
    about = [*notes(measured if len(measured) else uncensored), paired.note if paired else ""]
    if cells > 1 and len(ratios) and not refused:
        of_cells = [own.tolist() for _, own in measured_ratios.groupby(measured["cell"])]
        ends = [format_ratio(end(map(estimate, of_cells))) for end in (min, max)]
        about.append(f"mean of {cells} cells, whose ratios are {' to '.join(ends)}")
        withheld = withheld or _withheld_for_cells(of_cells)
    return {
        "pairs": len(ratios),
        "left_out": int((reasons != "").sum()),
        "ratio": estimate(ratios.tolist()) if len(ratios) and not refused else None,
        "low": low,
        "high": high,
        "test": paired if ranks and not withheld else None,
        "verdict": refused or withheld or absent,
        "note": "; ".join(filter(None, about)),
        "run_ids": _ids(measured),
        "left_out_run_ids": _ids(pairs[of_pairs != ""]),
        "left_out_reasons": count_reasons(reasons),
    }


def _withheld_for_cells(ratios: Iterable[Sequence[float]]) -> str | None:
    """Say that a verdict on a mean of cells is withheld, because it would hide opposite ones; None if it is not."""
    intervals = [paired.interval() for paired in map(paired_ratios, ratios) if paired]
    opposite = any(low > 1 for low, _ in intervals) and any(high < 1 for _, high in intervals)
    return f"{WITHHELD}some cells have a ratio above 1, others one below 1" if opposite else None


def _with_all_cells(pairs: pd.DataFrame, cells: int) -> pd.DataFrame:
    """Return the pairs of the repeats that have as many pairs."""
    return pairs if cells == 1 else pairs[pairs.groupby("repeat")["repeat"].transform("size") == cells]


def _ids(pairs: pd.DataFrame) -> str:
    return " ".join(f"{first} {second}" for first, second in zip(pairs["id_first"], pairs["id_second"], strict=True))


def read_comparisons(path: Path) -> pd.DataFrame:
    """Read the table from its CSV file. An empty cell in a column of numbers becomes NaN."""
    return read_table(path, NUMBERS).astype(dict.fromkeys(NUMBERS, "float64"))
