"""Compares the variants of an experiment, trainer by trainer.

Variants are different trainings on purpose. So they have no certificate, and a table of their own: by one trainer, what
do other settings than those of the first variant change in times, loss and accuracy? Runs are paired by repeat, as
those of trainers are (comparisons.py). Two runs of a pair have the same initial weights, unless the settings change
them.
"""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from trainmark.recipes.recipe import differing_settings, effective_settings
from trainmark.tables.comparisons import (
    OTHER_SETTINGS,
    SIDES,
    PairOfTrainers,
    add_verdicts,
    as_table,
    metrics_of,
)
from trainmark.tables.formatting import listed
from trainmark.tables.tables import GROUP, by_trainer, groups
from trainmark.tables.waiting import SHARES
from trainmark.trainer import Trainer
from trainmark.variant import split_name, variant_name

TRAINED_BY = ["trained_by", "device", "loop"]
"""The columns of the trainer of a run of a variant, without the variant and the number of workers."""

NAMED_AFTER = " with "
"""Between the framework and the variant in the name of a trainer."""


def runs_of_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of all variants, as runs of their experiment by trainers that are named "chainer with adam on cpu".

    variant, trained_by: the variant and the framework, as columns of their own.
    """
    names = runs["experiment"].map(split_name)
    found = runs.assign(experiment=names.str[0], variant=names.str[1], trained_by=runs["framework"])
    found = found[found["variant"] != ""]
    return found.assign(framework=found["trained_by"] + NAMED_AFTER + found["variant"])


def by_variants(named: pd.DataFrame) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield ((experiment, recipe, dataset), the runs of one trainer in all variants). named: `runs_of_variants`.

    A variant that has one number of workers is compared with variants that have another one.
    """
    for values, group in groups(named, [*GROUP, *TRAINED_BY]):
        are_of_several = group.groupby("variant")["workers"].nunique().max() > 1
        for _, own in groups(group, ["workers"]) if are_of_several else [(values, group)]:
            yield values[: len(GROUP)], own


def baseline_of(of_trainer: pd.DataFrame) -> Trainer:
    """The variant with which the others of a trainer are compared: the first one that has a run which is ok.

    of_trainer: see `by_variants`.
    """
    is_ok = of_trainer["status"] == "ok"
    return Trainer.of((of_trainer[is_ok] if is_ok.any() else of_trainer).iloc[0])


def variants_table(runs: pd.DataFrame, records: Iterable[Mapping]) -> pd.DataFrame:
    """Compare the baseline of each trainer with the others: a row per number of epochs, variant and metric.

    All times are corrected together. `parity` is OTHER_SETTINGS, and `reason` says in which settings the two differ.
    """
    settings: dict[tuple, Mapping] = {}
    for record in records:
        settings.setdefault((record["run"]["experiment"], record["run"]["recipe"]), record)
    rows = [
        one.compared(metric)
        for group, of_trainer in by_variants(runs_of_variants(runs))
        for one in _pairs(group, of_trainer, settings)
        if len(one.pairs)
        for metric in metrics_of(one, is_longest=one.names["epochs"] == of_trainer["epochs"].max())
    ]
    add_verdicts(rows, together=SHARES)
    return as_table(rows)


def _pairs(group: tuple, runs: pd.DataFrame, records: Mapping[tuple, Mapping]) -> Iterator[PairOfTrainers]:
    """Yield the baseline of one trainer with each other variant. records: one of each variant and recipe."""
    experiment, recipe, _ = group
    first = baseline_of(runs)
    for (epochs,), of_epochs in groups(runs, ["epochs"]):
        others = dict(by_trainer(of_epochs))
        first_runs = others.pop(first, of_epochs[:0])
        for other, other_runs in others.items() if len(first_runs) else ():
            variants = [own["variant"].iloc[0] for own in (first_runs, other_runs)]
            of_both = [records[variant_name(experiment, variant), recipe] for variant in variants]
            names = dict(zip([*GROUP, "epochs", *SIDES], [*group, epochs, first.name, other.name], strict=True))
            parity = {"parity": OTHER_SETTINGS, "reason": _difference(variants, *of_both)}
            yield PairOfTrainers(names, (first_runs, other_runs), parity)


def _difference(variants: Iterable[str], *records: Mapping) -> str:
    """In which settings two variants differ, in a sentence."""
    first, second = (
        effective_settings(record["inputs"]["recipe"], record["settings"]) | {"workers": record["run"]["workers"]}
        for record in records
    )
    differing = differing_settings(first, second)
    return f"{listed(variants)} {f'differ in {listed(differing)}' if differing else 'have the same settings'}"
