"""Pairs the variants of an experiment: by one trainer, what do other settings than those of the first variant change?

Variants are different trainings on purpose, and have no certificate. Two runs of a pair have the same initial weights,
unless the settings change them.
"""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from trainmark.recipes.recipe import differing_settings, effective_settings
from trainmark.tables.formatting import listed
from trainmark.tables.frames import by_trainer, groups, named_after
from trainmark.tables.pairs import Pair
from trainmark.trainer import Trainer
from trainmark.variant import GROUP, cell_name, levels_of, split_name, variant_name

OTHER_SETTINGS = "other settings"
"""What stands in place of the parity class of two variants."""


def named_after_variants(table: pd.DataFrame) -> pd.DataFrame:
    """A table of runs or numbers, with those of variants as those of their experiment, by trainers that are named after
    them: "chainer with adam on cpu". The columns `variant` ("" for none) and `trained_by`, the framework, are added.
    """
    names, trained_by = table["experiment"].map(split_name), table["framework"]
    variant = names.str[1].where(names.str[1] != "", table.get("variant", ""))
    of_variant = {"variant": variant, "trained_by": trained_by, "framework": named_after(trained_by, variant)}
    return table.assign(experiment=names.str[0], **of_variant)


def by_variants(named: pd.DataFrame) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield ((experiment, recipe, dataset), the runs of one trainer in all variants); named: of `named_after_variants`.

    A variant that has one number of workers is compared with variants that have another one.
    """
    for values, group in groups(named, [*GROUP, "trained_by", "device", "loop"]):
        are_of_several = group.groupby("variant")["workers"].nunique().max() > 1
        for _, own in groups(group, ["workers"]) if are_of_several else [(values, group)]:
            yield values[: len(GROUP)], own


def parts_of(of_trainer: pd.DataFrame, *, with_cells: bool = True) -> Iterator[pd.DataFrame]:
    """Yield the runs of one trainer (see `by_variants`) part by part: in each, variants are compared with the first.

    Variants are one part. A grid has a part for each factor, in which all cells with the same level of it are one
    variant; then, `with_cells`, parts of the cells that differ in one factor alone. The columns `cell` and `settings`
    are added: the levels of the other factors, and the variant that was trained.
    """
    runs = of_trainer.assign(cell="", settings=of_trainer["variant"])
    levels = runs["variant"].map(levels_of)
    if not (factors := list(levels.iloc[0])):
        yield runs
    by_factor = []
    for factor in factors:
        level = levels.map(lambda own, factor=factor: cell_name({factor: own[factor]}))
        cell = levels.map(lambda own, factor=factor: cell_name({key: own[key] for key in factors if key != factor}))
        by_factor.append(runs.assign(level=level, cell=cell))
    for own in by_factor:
        in_order = pd.concat([of_level for _, of_level in groups(own, ["level"])])
        framework = named_after(in_order["trained_by"], in_order["level"])
        yield in_order.assign(variant=in_order["level"], framework=framework)
    for own in by_factor if with_cells else ():
        yield from (of_cell for _, of_cell in groups(own, ["cell"]))


def baseline_of(part: pd.DataFrame) -> Trainer:
    """The variant with which the others of a part are compared: the first one that has a run which is ok."""
    is_ok = part["status"] == "ok"
    return Trainer.of((part[is_ok] if is_ok.any() else part).iloc[0])


def variant_pairs(runs: pd.DataFrame, records: Iterable[Mapping]) -> Iterator[Pair]:
    """Yield the baseline of each trainer with each other variant. The reason says in which settings the two differ."""
    firsts = {(one["run"]["experiment"], one["run"]["recipe"]): one for one in reversed(list(records))}
    named = named_after_variants(runs)
    named = named[named["variant"] != ""]
    grids = {*named["experiment"][named["variant"].map(levels_of).astype(bool)]}
    for group, of_trainer in by_variants(named):
        for part in parts_of(of_trainer):
            yield from _pairs(group, part, firsts, of_trainer["epochs"].max(), has_one=group[0] not in grids)


def _pairs(
    group: tuple, runs: pd.DataFrame, records: Mapping[tuple, Mapping], most_epochs: int, *, has_one: bool
) -> Iterator[Pair]:
    """Yield the baseline of a part with each of its other variants, at each number of epochs.

    records: one of each variant and recipe. has_one: whether the experiment has one baseline: it is no grid.
    """
    first = baseline_of(runs)
    for (epochs,), of_epochs in groups(runs, ["epochs"]):
        others = dict(by_trainer(of_epochs))
        first_runs = others.pop(first, of_epochs[:0])
        for other, other_runs in others.items():
            both = (first_runs, other_runs)
            own, its = (of_one[["cell", "settings"]].drop_duplicates() for of_one in both)
            if (in_both := own.merge(its, on="cell")).empty:
                continue
            variants = list(in_both.loc[0, ["settings_x", "settings_y"]])
            of_variants = [records[variant_name(group[0], one), group[1]] for one in variants]
            differing = differing_settings(*map(_settings, of_variants))
            which = "Cells that are compared with each other" if any(map(levels_of, variants)) else listed(variants)
            reason = f"{which} {f'differ in {listed(differing)}' if differing else 'have the same settings'}"
            at = {"is_longest": epochs == most_epochs, "is_over_baseline": has_one, "differing": frozenset(differing)}
            at["cells"] = pd.concat(both)["cell"].nunique()
            yield Pair("variants", group, epochs, first, other, both, OTHER_SETTINGS, reason, **at)


def _settings(record: Mapping) -> dict:
    return effective_settings(record["inputs"]["recipe"], record["settings"]) | {"workers": record["run"]["workers"]}
