"""What a figure is drawn from: the tables of one experiment, recipe and dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainmark.config.references import read_references, references_of
from trainmark.errors import ConfigError
from trainmark.plan.run import group_title
from trainmark.report.figures.options import DEFAULT_OPTIONS, FigureOptions
from trainmark.tables.results import read_results
from trainmark.tables.tables import by_trainer, longest_runs, read_table, select_group, with_names
from trainmark.trainer import TRAINER, Trainer


@dataclass(frozen=True)
class Data:
    """The tables of one group. Losses and times that are not finite are missing in the curves.

    certificate: None for a group with one trainer.
    references: published results of this recipe on this dataset (config/references.py).
    options: what the user chose of all figures.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    comparisons: pd.DataFrame
    parity: pd.DataFrame
    break_even: pd.DataFrame
    targets: pd.DataFrame
    speed_ups: pd.DataFrame
    tuning: pd.DataFrame
    published: pd.DataFrame
    certificate: Mapping | None = None
    references: Sequence[Mapping] = ()
    options: FigureOptions = DEFAULT_OPTIONS

    @property
    def title(self) -> str:
        """The recipe and the dataset in words."""
        first = self.runs.iloc[0]
        return group_title(first["recipe"], first["dataset"])

    @property
    def trainers(self) -> list[Trainer]:
        """The trainers, in the order of the runs."""
        return [trainer for trainer, _ in by_trainer(self.runs)]

    @property
    def finished(self) -> pd.DataFrame:
        """The runs that are ok. Censored runs stopped early, so their times do not count."""
        return self.runs[self.runs["status"] == "ok"]

    @property
    def longest(self) -> pd.DataFrame:
        """The runs of each trainer with its largest number of epochs."""
        return longest_runs(self.runs)

    @property
    def references_by_epoch(self) -> Sequence[Mapping]:
        """The published results whose epochs are those of the runs: none for runs that restart their optimizer."""
        return () if self.runs["optimizer_restarts"].gt(0).any() else self.references

    @property
    def pairs(self) -> pd.DataFrame:
        """The parity of all pairs: of a command, which has no certificate, those of its comparisons."""
        columns = ["first", "second", "parity", "reason"]
        return (self.comparisons if self.parity.empty else self.parity)[columns].drop_duplicates()


def read_data(group: tuple[str, str, str], folder: Path, options: FigureOptions = DEFAULT_OPTIONS) -> Data:
    """Read the tables of a group from a results folder. group: experiment, recipe and dataset.

    Raises CertificateError or ConfigError if the certificate or the references can't be read, if there are no runs of
    the group, or if the options name a trainer that it does not have.
    """
    results = read_results(folder, group[0])
    groups = {name: (of_group, runs) for of_group, name, runs in results.groups()}
    if group not in groups:
        known = ", ".join(" ".join(name) for _, name, _ in read_results(folder).groups())
        raise ConfigError(f"{folder} has no runs of {' '.join(group)} (experiment, recipe, dataset); it has {known}")
    of_group, runs = groups[group]
    tables = folder / "tables"
    curves = pd.read_parquet(tables / "curves.parquet")
    data = Data(
        runs,
        curves[curves["id"].isin(runs["id"])].replace([np.inf, -np.inf], np.nan),
        select_group(of_group.comparisons, group),
        select_group(of_group.parity, group),
        select_group(of_group.break_even, group),
        select_group(of_group.targets, group),
        select_group(of_group.speed_ups, group),
        select_group(read_table(tables / "tuning.csv"), group),
        select_group(of_group.published, group),
        of_group.certificates.get(group),
        references_of(group, read_references()),
        options,
    )
    data = data if options.trainers is None else of_trainers(data, options.trainers)
    return replace(data, runs=with_names(data.runs), targets=with_names(data.targets))


def of_trainers(data: Data, chosen: Sequence[str]) -> Data:
    """The same, of these trainers alone; of a pair, both must be chosen. Raises ConfigError if one is not there."""
    known = {str(trainer): trainer for trainer in data.trainers}
    if unknown := [trainer for trainer in chosen if trainer not in known]:
        raise ConfigError(f"figures.trainers: found {', '.join(unknown)}; allowed: {', '.join(known)}")
    hidden = {trainer for written, trainer in known.items() if written not in chosen}
    names = {trainer.name for trainer in hidden}

    def rows(table: pd.DataFrame) -> pd.DataFrame:
        return table.loc[[trainer not in hidden for trainer in table[[*TRAINER]].itertuples(index=False, name=None)]]

    def pairs(table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["first"].isin(names) & ~table["second"].isin(names)]

    runs, certificate = rows(data.runs), data.certificate
    if certificate is not None:
        of_pairs = [one for one in certificate["pairs"] if not {one["first"], one["second"]} & names]
        certificate = {**certificate, "pairs": of_pairs}
    tables: dict[str, Any] = {name: pairs(getattr(data, name)) for name in ("comparisons", "parity", "break_even")}
    tables |= {name: rows(getattr(data, name)) for name in ("targets", "speed_ups", "tuning", "published")}
    tables["curves"] = data.curves[data.curves["id"].isin(runs["id"])]
    return replace(data, runs=runs, certificate=certificate, **tables)
