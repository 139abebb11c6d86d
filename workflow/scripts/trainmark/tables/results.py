"""Reads the tables and certificates that the report shows from a results folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from trainmark.parity.certificate import read_certificates
from trainmark.plan.plan_file import read_plan
from trainmark.tables.comparisons import Certificates, groups_to_certify, read_comparisons, speed_ups_table
from trainmark.tables.published import NUMBERS
from trainmark.tables.tables import GROUP, groups, read_table
from trainmark.tables.targets import targets_table
from trainmark.tables.variants import runs_of_variants, without_grids
from trainmark.variant import split_name

OF_TRAINERS = ("parity", "agreement", "break_even", "variants", "published")
"""The tables that have no rows of experiments with variants."""


@dataclass(frozen=True)
class Results:
    """The tables and certificates of a campaign.

    folder: the results folder, which also holds figures and datasets. plan: the plan in it.
    """

    folder: Path
    plan: Mapping
    runs: pd.DataFrame
    comparisons: pd.DataFrame
    parity: pd.DataFrame
    agreement: pd.DataFrame
    certificates: Certificates
    break_even: pd.DataFrame
    targets: pd.DataFrame
    speed_ups: pd.DataFrame
    variants: pd.DataFrame
    published: pd.DataFrame
    claims: pd.DataFrame

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each run, by its id."""
        return dict(zip(self.runs["id"], self.runs["number"], strict=True))

    @cached_property
    def of_variants(self) -> "Results":
        """Those of the experiments with variants: the runs of each variant by trainers that are named after it."""
        runs = runs_of_variants(self.runs)
        return replace(
            self,
            runs=runs,
            comparisons=self.variants,
            targets=targets_table(runs),
            speed_ups=speed_ups_table(without_grids(self.variants, runs)),
            certificates={},
            **{name: getattr(self, name)[:0] for name in OF_TRAINERS},
        )

    def groups(self) -> Iterator[tuple["Results", tuple[str, str, str], pd.DataFrame]]:
        """Yield (its results, its name, its runs) of each group, in the order of the config. That of an experiment with
        variants comes before those of its variants.
        """
        with_variants = dict(groups(self.of_variants.runs, GROUP))
        for (experiment, *recipe_and_dataset), runs in groups(self.runs, GROUP):
            name = (split_name(experiment)[0], *recipe_and_dataset)
            if name in with_variants:
                yield self.of_variants, name, with_variants.pop(name)
            yield self, (experiment, *recipe_and_dataset), runs


def read_results(folder: Path, experiment: str | None = None) -> Results:
    """Read the tables and certificates of a results folder. Raises CertificateError if a certificate can't be read.

    experiment: with it, only the runs and certificates of one experiment, and of its variants.
    """
    tables, plan = folder / "tables", read_plan(folder / "plan.json")
    runs = pd.read_parquet(tables / "runs.parquet")
    if experiment:
        runs = runs[[experiment in (name, split_name(name)[0]) for name in runs["experiment"]]]
    return Results(
        folder,
        plan,
        runs,
        read_comparisons(tables / "comparisons.csv"),
        read_table(tables / "parity.csv"),
        read_table(tables / "agreement.csv"),
        read_certificates(folder, plan, groups_to_certify(runs)),
        read_table(tables / "break_even.csv"),
        read_table(tables / "targets.csv"),
        read_table(tables / "speed_ups.csv"),
        read_comparisons(tables / "variants.csv"),
        read_table(tables / "published.csv", NUMBERS),
        read_table(tables / "claims.csv"),
    )
