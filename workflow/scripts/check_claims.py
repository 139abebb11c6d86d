"""End with an error if a claim fails, or can't be checked."""

import argparse
from pathlib import Path

from trainmark.errors import ClaimError, run_command
from trainmark.tables.claims import FAILED
from trainmark.tables.tables import read_table, rows_of


def main() -> None:
    """Read the table of claims, and name those that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", required=True, type=Path, help="claims.csv of the tables")
    rows = rows_of(read_table(parser.parse_args().claims))
    if failed := [row for row in rows if row["status"] in FAILED]:
        raise ClaimError("; ".join(f"{row['status']}: {row['says']} ({row['sentence']})" for row in failed))


if __name__ == "__main__":
    run_command(main)
