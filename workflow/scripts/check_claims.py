"""End with an error if a claim fails, or can't be checked."""

import argparse

from trainmark.errors import ClaimError, run_command
from trainmark.plan.plan_file import add_plan, read_plan
from trainmark.tables.claims import FAILED, judged
from trainmark.tables.frames import read_table
from trainmark.tables.numbers import read_numbers


def main() -> None:
    """Judge the claims of the config by the tables, and name those that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan(parser)
    plan = parser.parse_args().plan
    tables, claims = plan.parent / "tables", read_plan(plan)["config"]["claims"]
    found = judged(claims, read_numbers(tables / "numbers.csv"), read_table(tables / "parity.csv"))
    if failed := [one for one in found if one["status"] in FAILED]:
        raise ClaimError("; ".join(f"{one['status']}: {one['says']} ({one['sentence']})" for one in failed))


if __name__ == "__main__":
    run_command(main)
