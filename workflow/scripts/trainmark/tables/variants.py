"""Compares the variants of an experiment, trainer by trainer.

Variants are different trainings on purpose. So they have no certificate, and a table of their own: by one trainer, what
do other settings than those of the first variant change in times, loss and accuracy? Runs are paired by repeat, as
those of trainers are (comparisons.py). Two runs of a pair have the same initial weights, unless the settings change
them.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import isclose
from typing import Any

import pandas as pd

from trainmark.config.load import keys_that_decide
from trainmark.errors import RecordError
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import Optimizer, differing_settings, effective_settings
from trainmark.recipes.schedules import epoch_rates
from trainmark.records.resolved import batch_size_of, optimizer_of
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
from trainmark.variant import NAMED_AFTER, cell_name, levels_of, split_name, variant_name

TRAINED_BY = ["trained_by", "device", "loop"]
"""The columns of the trainer of a run of a variant, without the variant and the number of workers."""


NO_OTHER_LOSSES = ("loader", "input.crop", "input.mean_window", "input.random_crop")
"""Settings that decide the training, and may rightly change nothing: a loader gives the same batches, and a window that
is the whole image has one position."""

SMALL_EPSILON = 1e-7
"""A smaller epsilon may change no bit."""

NEAR = 1e-6
"""Relative difference of two constants that may change no bit of float32."""


def check_variants(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError if a setting in which two variants differ did not reach a run. records: by path.

    Then the runs of one trainer and repeat have the same losses, to the last bit.
    """
    runs: dict[tuple, list[tuple[str, Mapping]]] = {}
    for path, record in records.items():
        run, (experiment, variant) = record["run"], split_name(record["run"]["experiment"])
        # The first update knows neither momentum nor the mean of earlier gradients.
        if variant and run["framework"] != FRAMEWORK and record["status"] == "ok" and record["counted"]["updates"] > 1:
            own = tuple(run[key] for key in run if key not in ("id", "experiment"))
            runs.setdefault((experiment, *own), []).append((path, record))
    for of_run in runs.values():
        for (first_path, first), (second_path, second) in combinations(of_run, 2):
            if _losses(first) == _losses(second) and (settings := _telling_settings(first, second)):
                variants = listed([split_name(one["run"]["experiment"])[1] for one in (first, second)])
                raise RecordError(
                    f"{first_path} and {second_path}: the variants {variants} differ in {listed(settings)}, but these "
                    "runs have the same losses to the last bit, so one was trained with the settings of the other; "
                    "delete both, and snakemake trains the runs again"
                )


def _losses(record: Mapping) -> list[Any]:
    return [[entry["step_losses"], entry["evaluations"]["test"]["loss"]] for entry in record["curves"]]


def _telling_settings(first: Mapping, second: Mapping) -> list[str]:
    """Return the settings in which two variants differ, of those that change the losses of every run."""
    both = (first, second)
    differing = differing_settings(*(effective_settings(one["inputs"]["recipe"], one["settings"]) for one in both))
    deciding = [key for key in keys_that_decide(["training"]) if key not in ("optimizer", "learning_rate_schedule")]
    may_be_equal = {
        **dict.fromkeys(NO_OTHER_LOSSES, True),
        "batch_size": batch_size_of(first) == batch_size_of(second),
        "dropout": _dropout_rates(first) == _dropout_rates(second),
        "initial_weights": first["inputs"]["initial_weights_sha256"] == second["inputs"]["initial_weights_sha256"],
        "optimizer_restarts": "sgd" in (optimizer_of(first)["rule"], optimizer_of(second)["rule"]),
    }
    found = [
        key
        for key in differing
        if key.split(".")[0] in deciding and not (may_be_equal.get(key) or may_be_equal.get(key.split(".")[0]))
    ]
    return found + [f"optimizer.{key}" for key in _differing_constants(first, second)]


def _dropout_rates(record: Mapping) -> list[float]:
    recipe, rate = RECIPES.get(record["run"]["recipe"]), record["settings"].get("dropout")
    rates = recipe.dropout_rates if recipe else []
    return rates if rate is None or not rates else [rate]


def _differing_constants(first: Mapping, second: Mapping) -> list[str]:
    """Return the constants of the update rule that differ in an epoch that was trained: a schedule may not have begun.

    Constants that only one of two rules has are left out.
    """
    differing: dict[str, None] = {}
    for entry in first["curves"]:
        mine, others = (_constants(one, entry["epoch"]) for one in (first, second))
        differing |= dict.fromkeys(
            key for key in mine if key in others and not _may_be_equal(key, mine[key], others[key])
        )
    return list(differing)


def _constants(record: Mapping, epoch: int) -> dict[str, Any]:
    values = optimizer_of(record)
    optimizer = Optimizer(values.pop("rule"), values.pop("learning_rate"), tuple(values.items()))
    rates = epoch_rates(optimizer, record["settings"].get("learning_rate_schedule", {}), batch_size_of(record), epoch)
    return optimizer.with_rates(rates).as_dict()


def _may_be_equal(key: str, first: Any, second: Any) -> bool:
    if isinstance(first, str):
        return bool(first == second)
    return (key == "epsilon" and max(first, second) <= SMALL_EPSILON) or isclose(first, second, rel_tol=NEAR)


def runs_of_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of all variants, as runs of their experiment by trainers that are named "chainer with adam on cpu".

    variant, trained_by: the variant and the framework, as columns of their own.
    """
    names = runs["experiment"].map(split_name)
    found = runs.assign(experiment=names.str[0], variant=names.str[1], trained_by=runs["framework"])
    found = found[found["variant"] != ""]
    return found.assign(framework=_framework(found["trained_by"], found["variant"]))


def by_variants(named: pd.DataFrame) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield ((experiment, recipe, dataset), the runs of one trainer in all variants). named: `runs_of_variants`.

    A variant that has one number of workers is compared with variants that have another one.
    """
    for values, group in groups(named, [*GROUP, *TRAINED_BY]):
        are_of_several = group.groupby("variant")["workers"].nunique().max() > 1
        for _, own in groups(group, ["workers"]) if are_of_several else [(values, group)]:
            yield values[: len(GROUP)], own


def parts_of(of_trainer: pd.DataFrame, *, with_cells: bool = True) -> Iterator[pd.DataFrame]:
    """Yield the runs of one trainer, part by part: in each, the others are compared with the first variant.

    Variants are one part. A grid has a part for each factor, in which all cells with the same level of it are one
    variant; then, `with_cells`, parts of the cells that differ in one factor alone.

    of_trainer: see `by_variants`.

    The columns `cell` and `settings` are added: the levels of the other factors, and the variant that was trained.
    """
    runs = of_trainer.assign(cell="", settings=of_trainer["variant"])
    levels = runs["variant"].map(levels_of)
    factors = list(levels.iloc[0])
    if not factors:
        yield runs
    by_factor = [
        runs.assign(
            level=_named(levels, [factor]), cell=_named(levels, [other for other in factors if other != factor])
        )
        for factor in factors
    ]
    for own in by_factor:
        in_order = pd.concat([of_level for _, of_level in groups(own, ["level"])])
        yield in_order.assign(
            variant=in_order["level"], framework=_framework(in_order["trained_by"], in_order["level"])
        )
    for own in by_factor if with_cells else ():
        for _, cells in groups(own, ["cell"]):
            yield cells


def _named(levels: pd.Series, factors: Iterable[str]) -> pd.Series:
    """Cells by their levels of some factors. levels: those of each row, by factor."""
    return levels.map(lambda own: cell_name({factor: own[factor] for factor in factors}))


def _framework(trained_by: pd.Series, variant: pd.Series) -> pd.Series:
    return trained_by + NAMED_AFTER + variant


def without_grids(comparisons: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of experiments that have no grid: those with one baseline. named: see `runs_of_variants`."""
    of_grids = named["experiment"][named["variant"].map(levels_of).astype(bool)]
    return comparisons[~comparisons["experiment"].isin(of_grids)]


def baseline_of(part: pd.DataFrame) -> Trainer:
    """The variant with which the others of a trainer are compared: the first one that has a run which is ok.

    part: see `parts_of`.
    """
    is_ok = part["status"] == "ok"
    return Trainer.of((part[is_ok] if is_ok.any() else part).iloc[0])


def variants_table(runs: pd.DataFrame, records: Iterable[Mapping]) -> pd.DataFrame:
    """Compare the baseline of each trainer with the others: a row per number of epochs, variant and metric.

    Of a grid, the cells that differ in one factor alone are compared, and the levels of a factor over all others.

    All times are corrected together. `parity` is OTHER_SETTINGS, and `reason` says in which settings the two differ.
    """
    settings: dict[tuple, Mapping] = {}
    for record in records:
        settings.setdefault((record["run"]["experiment"], record["run"]["recipe"]), record)
    rows = [
        one.compared(metric)
        for group, of_trainer in by_variants(runs_of_variants(runs))
        for part in parts_of(of_trainer)
        for one in _pairs(group, part, settings)
        if len(one.pairs)
        for metric in metrics_of(one, is_longest=one.names["epochs"] == of_trainer["epochs"].max())
    ]
    add_verdicts(rows, together=SHARES)
    return as_table(rows)


def _pairs(group: tuple, runs: pd.DataFrame, records: Mapping[tuple, Mapping]) -> Iterator[PairOfTrainers]:
    """Yield the baseline of one trainer with each other variant of a part. records: one of each variant and recipe."""
    experiment, recipe, _ = group
    first = baseline_of(runs)
    for (epochs,), of_epochs in groups(runs, ["epochs"]):
        others = dict(by_trainer(of_epochs))
        first_runs = others.pop(first, of_epochs[:0])
        for other, other_runs in others.items() if len(first_runs) else ():
            both = (first_runs, other_runs)
            cells = list(dict.fromkeys(pd.concat(both)["cell"]))
            if not (in_both := [cell for cell in cells if all((own["cell"] == cell).any() for own in both)]):
                continue
            variants = [own["settings"][own["cell"] == in_both[0]].iloc[0] for own in both]
            of_both = [records[variant_name(experiment, variant), recipe] for variant in variants]
            names = dict(zip([*GROUP, "epochs", *SIDES], [*group, epochs, first.name, other.name], strict=True))
            parity = {"parity": OTHER_SETTINGS, "reason": _difference(variants, *of_both)}
            yield PairOfTrainers(names, both, parity, len(cells))


def _difference(variants: Iterable[str], *records: Mapping) -> str:
    """In which settings two variants differ, in a sentence."""
    first, second = (
        effective_settings(record["inputs"]["recipe"], record["settings"]) | {"workers": record["run"]["workers"]}
        for record in records
    )
    differing = differing_settings(first, second)
    which = "Cells that are compared with each other" if any(map(levels_of, variants)) else listed(variants)
    return f"{which} {f'differ in {listed(differing)}' if differing else 'have the same settings'}"
