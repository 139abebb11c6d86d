"""What a figure is drawn from: the tables of one experiment, recipe and dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from trainmark.config.references import read_references
from trainmark.parity.certificate import read_certificates
from trainmark.tables.comparisons import groups_to_certify, read_comparisons
from trainmark.tables.tables import longest_runs, read_table, select_group


@dataclass(frozen=True)
class Data:
    """The tables of one group. Losses and times that are not finite are missing in the curves.

    certificate: None for a group with one trainer.
    references: published results of this recipe on this dataset (config/references.py).
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    comparisons: pd.DataFrame
    break_even: pd.DataFrame
    targets: pd.DataFrame
    speed_ups: pd.DataFrame
    tuning: pd.DataFrame
    certificate: Mapping | None = None
    references: Sequence[Mapping] = ()

    @property
    def finished(self) -> pd.DataFrame:
        """The runs that are ok. Censored runs stopped early, so their times do not count."""
        return self.runs[self.runs["status"] == "ok"]

    @property
    def longest(self) -> pd.DataFrame:
        """The runs of each trainer with its largest number of epochs."""
        return longest_runs(self.runs)


def read_data(group: Sequence[str], folder: Path) -> Data:
    """Read the tables of a group from a results folder. group: experiment, recipe and dataset.

    Raises CertificateError or ConfigError if the certificate or the references can't be read.
    """
    tables = folder / "tables"
    runs = select_group(pd.read_parquet(tables / "runs.parquet"), group)
    curves = pd.read_parquet(tables / "curves.parquet")
    certified = read_certificates(folder / "certificates", groups_to_certify(runs))
    _, recipe, dataset = group
    return Data(
        runs,
        curves[curves["id"].isin(runs["id"])].replace([np.inf, -np.inf], np.nan),
        select_group(read_comparisons(tables / "comparisons.csv"), group),
        select_group(read_table(tables / "break_even.csv"), group),
        select_group(read_table(tables / "targets.csv"), group),
        select_group(read_table(tables / "speed_ups.csv"), group),
        select_group(read_table(tables / "tuning.csv"), group),
        next(iter(certified.values()), None),
        [one for one in read_references() if (one["recipe"], one["dataset"]) == (recipe, dataset)],
    )
