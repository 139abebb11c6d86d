"""The sections of a campaign, each with its rows of all tables: what page, figures, terminal and paper choose from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import pandas as pd

from trainmark.parity.certificate import read_certificates
from trainmark.plan.matrix import certified_groups
from trainmark.plan.plan_file import read_plan
from trainmark.plan.run import Run, group_title
from trainmark.recipes.command import DATASET
from trainmark.tables.claims import judged
from trainmark.tables.formatting import counted
from trainmark.tables.frames import groups, read_table, rows_of, select_group, with_names
from trainmark.tables.numbers import read_numbers
from trainmark.tables.trainers import Certificates, baselines_of
from trainmark.tables.variants import named_after_variants
from trainmark.trainer import TRAINER
from trainmark.variant import GROUP, Group, split_name

OF_ONE_VARIANT = ("median", "median_time_to_accuracy", "reached", "trimmed_mean")
"""The statistics of one variant that its experiment's section has, beside the comparisons of its variants."""


@dataclass(frozen=True)
class Section:
    """What there is of one experiment, recipe and dataset; of one with variants by trainers that are named after them.

    numbers: rows of the table of numbers. parity: of each pair of trainers. certificate: None if there is none.
    baseline: the trainer with which the others are compared; "" for a command and for variants.
    """

    group: Group
    runs: pd.DataFrame
    numbers: pd.DataFrame
    parity: pd.DataFrame
    certificate: Mapping | None
    has_variants: bool
    baseline: str

    @property
    def title(self) -> str:
        """The recipe and the dataset in words, and how many variants there are."""
        title = group_title(*self.group[1:])
        return f"{title}, {counted(self.runs['variant'].nunique(), 'variant')}" if self.has_variants else title

    @property
    def is_command(self) -> bool:
        """Whether its runs are those of a command."""
        return self.group[2] == DATASET

    @cached_property
    def named(self) -> Self:
        """The same, with a command's own name in place of its framework."""
        return replace(self, runs=with_names(self.runs), numbers=with_names(self.numbers))

    def rows(self, statistic: str, metric: str | None = None) -> pd.DataFrame:
        """Select the numbers of a statistic, and of a metric."""
        chosen = self.numbers["statistic"] == statistic
        return self.numbers[chosen if metric is None else chosen & (self.numbers["metric"] == metric)]


@dataclass(frozen=True)
class Results:
    """The tables and certificates of a campaign. folder: of its results, which also holds figures and datasets."""

    folder: Path
    plan: Mapping
    runs: pd.DataFrame
    numbers: pd.DataFrame
    parity: pd.DataFrame
    certificates: Certificates

    @cached_property
    def claims(self) -> list[dict]:
        """The claims of the config, each with its status."""
        return judged(self.plan["config"].get("claims", []), self.numbers, self.parity)

    @cached_property
    def sections(self) -> list[Section]:
        """All sections in the order of the config, that of an experiment before those of its variants."""
        runs, numbers = map(named_after_variants, (self.runs, self.numbers))
        of_variants = dict(groups(runs[runs["variant"] != ""], GROUP))
        is_comparison = numbers["experiment"] == self.numbers["experiment"]
        numbers = numbers[is_comparison | numbers["statistic"].isin(OF_ONE_VARIANT)]
        baselines = baselines_of(self.runs, self.plan["config"]["experiments"])
        found = []
        for (experiment, recipe, dataset), own in groups(self.runs, GROUP):
            group, with_variants = (experiment, recipe, dataset), (split_name(experiment)[0], recipe, dataset)
            if with_variants in of_variants:
                named, chosen = of_variants.pop(with_variants), select_group(numbers, with_variants)
                found.append(Section(with_variants, named, chosen, self.parity[:0], None, True, ""))
            chosen, parity = select_group(self.numbers, group), select_group(self.parity, group)
            certificate, baseline = self.certificates.get(group), baselines.get(group, "")
            found.append(Section(group, own, chosen, parity, certificate, False, baseline))
        return found


def read_results(folder: Path, experiment: str | None = None) -> Results:
    """Read a results folder, or of it one experiment with its variants. Raises CertificateError if it can't be read."""
    tables, plan = folder / "tables", read_plan(folder / "plan.json")
    runs = pd.read_parquet(tables / "runs.parquet")
    if experiment:
        runs = runs[[experiment in (name, split_name(name)[0]) for name in runs["experiment"]]]
    of_trainers = rows_of(runs.drop_duplicates([*GROUP, *TRAINER]))
    certificates = read_certificates(folder, plan, certified_groups(map(Run.of, of_trainers)))
    numbers, parity = read_numbers(tables / "numbers.csv"), read_table(tables / "parity.csv")
    return Results(folder, plan, runs, numbers, parity, certificates)
