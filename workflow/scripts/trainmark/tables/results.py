"""Reads the tables and certificates that the report shows from a results folder."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from trainmark.parity.certificate import read_certificates
from trainmark.tables.comparisons import Certificates, groups_to_certify, read_comparisons
from trainmark.tables.tables import read_table


@dataclass(frozen=True)
class Results:
    """The tables and certificates of a campaign. folder: the results folder, which also holds figures and datasets."""

    folder: Path
    runs: pd.DataFrame
    comparisons: pd.DataFrame
    parity: pd.DataFrame
    agreement: pd.DataFrame
    certificates: Certificates
    break_even: pd.DataFrame
    targets: pd.DataFrame

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each run, by its id."""
        return dict(zip(self.runs["id"], self.runs["number"], strict=True))


def read_results(folder: Path) -> Results:
    """Read the tables and certificates of a results folder. Raises CertificateError if a certificate can't be read."""
    tables = folder / "tables"
    runs = pd.read_parquet(tables / "runs.parquet")
    return Results(
        folder,
        runs,
        read_comparisons(tables / "comparisons.csv"),
        read_table(tables / "parity.csv"),
        read_table(tables / "agreement.csv"),
        read_certificates(folder / "certificates", groups_to_certify(runs)),
        read_table(tables / "break_even.csv"),
        read_table(tables / "targets.csv"),
    )
