"""Selects rows of tables: groups, trainers, the runs whose times count; and makes rows of the table of numbers."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pandas as pd

from trainmark.recipes.command import FRAMEWORK
from trainmark.trainer import TRAINER, Trainer
from trainmark.variant import GROUP, NAMED_AFTER

SETTING = [*GROUP, *TRAINER, "epochs"]
"""The columns that identify a setting. Runs of one setting differ only in their repeat."""

ENDS = ("value", "low", "high")
"""The columns of a number and of the ends of its interval or range."""

NOTHING: Mapping = MappingProxyType({})


def number(of: Mapping, statistic: str, metric: str, unit: str, ends: Iterable = (), **columns: Any) -> dict:
    """A row of the table of numbers. of: columns of what it is a number of. ends: its value, or that with both ends."""
    ends = dict(zip(ENDS, (*ends, None, None, None), strict=False))
    return {**of, "statistic": statistic, "metric": metric, "unit": unit, **ends, **columns}


def named_after(framework: pd.Series, variant: pd.Series) -> pd.Series:
    """The frameworks named after their variants: "chainer with adam"; without a variant ("") as they are."""
    return (framework + NAMED_AFTER + variant).where(variant != "", framework)


def split_framework(name: str) -> tuple[str, str]:
    """(framework, variant) of the name of a framework that may be named after its variant, which is "" for none."""
    framework, _, variant = name.partition(NAMED_AFTER)
    return framework, variant


def columns_of(group: Iterable[str], trainer: Trainer) -> dict:
    """The columns of a group and a trainer, and the variant that the trainer is named after ("" for none)."""
    framework, variant = split_framework(trainer.framework)
    own = trainer._replace(framework=framework)._asdict()
    return dict(zip(GROUP, group, strict=True)) | own | {"variant": variant}


def with_names(table: pd.DataFrame) -> pd.DataFrame:
    """A table of runs or trainers with the name of its own for the framework of a command."""
    return table.assign(framework=table["framework"].where(table["framework"] != FRAMEWORK, table["recipe"]))


def timed_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs whose times enter medians: of each setting those that were not disturbed; all if every one was."""
    undisturbed = runs["disturbed"] == ""
    is_any = undisturbed.groupby([runs[key] for key in SETTING]).transform("any")
    return runs[undisturbed | ~is_any]


def groups(table: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield (values, rows) for each group of rows with equal values in these columns, in order of first appearance."""
    yield from table.groupby(columns, sort=False)


def by_trainer(table: pd.DataFrame) -> Iterator[tuple[Trainer, pd.DataFrame]]:
    """Yield (trainer, its rows), in order of first appearance."""
    return ((Trainer(*values), rows) for values, rows in groups(table, [*TRAINER]))


def longest_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the runs of each trainer of a group that have its largest number of epochs."""
    return runs[runs["epochs"] == runs.groupby([*GROUP, *TRAINER])["epochs"].transform("max")]


def select_group(table: pd.DataFrame, values: Iterable[str]) -> pd.DataFrame:
    """Select the rows of one group. values: experiment, recipe and dataset, in the order of GROUP."""
    return table[(table[GROUP] == list(values)).all(axis=1)]


def select_trainer(table: pd.DataFrame, trainer: Trainer) -> pd.DataFrame:
    """Select the rows of one trainer."""
    return table[(table[list(TRAINER)] == list(trainer)).all(axis=1)]


def shown_of_trainers(runs: pd.DataFrame) -> list[str]:
    """The columns of TRAINER that a reader needs: without the parts that are the usual ones in all runs."""
    return [key for key in TRAINER if {*runs[key]} != {Trainer._field_defaults.get(key)}]


def rows_of(table: pd.DataFrame) -> list[dict]:
    """The rows of a table as dicts, with None instead of NaN for missing values."""
    plain = table.astype(object)
    return plain.where(table.notna(), None).to_dict("records")


def read_table(file: Path | IO[bytes], types: Mapping[str, str] = NOTHING) -> pd.DataFrame:
    """Read a table from its CSV file. Names remain text, whatever they look like: "2024", "007", "nan". types: of
    columns; an empty cell of one that is no text is missing.
    """
    missing = {column: [""] for column, kind in types.items() if kind != "str"}
    texts = dict.fromkeys(GROUP, "str") | Trainer.__annotations__
    return pd.read_csv(file, dtype={**texts, **types}, keep_default_na=False, na_values=missing)


def is_same_parquet(file: Path, other: Path) -> bool:
    """Whether two parquet files hold the same table, whichever version of pyarrow wrote them."""
    return pd.read_parquet(file).equals(pd.read_parquet(other))
