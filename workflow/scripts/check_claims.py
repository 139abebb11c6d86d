"""End with an error if a claim fails, or can't be checked."""

import argparse
import csv
from pathlib import Path

from trainmark.errors import ClaimError, run_command

FAILED = ("fails", "wrong")
"""The statuses of such claims in the table."""


def main() -> None:
    """Read the table of claims, and name those that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", required=True, type=Path, help="claims.csv of the tables")
    with parser.parse_args().claims.open(encoding="utf-8", newline="") as file:
        failed = [row for row in csv.DictReader(file) if row["status"] in FAILED]
    if failed:
        raise ClaimError("; ".join(f"{row['status']}: {row['says']} ({row['sentence']})" for row in failed))


if __name__ == "__main__":
    run_command(main)
