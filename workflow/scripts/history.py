"""Show each setting over several campaigns, and where its medians change. Prints a line per series and per change.

A series is a metric of a trainer at a number of epochs, on one kind of machine. Campaigns are put in the order of time.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tabulate import tabulate

from trainmark.campaigns.folders import read_campaigns
from trainmark.campaigns.history import history, places, with_unit
from trainmark.campaigns.pages import render
from trainmark.console import CONTROLS
from trainmark.errors import run_command
from trainmark.files.whole import write_text
from trainmark.tables.metrics import METRICS
from trainmark.variant import GROUP

HEADINGS = ["trainer", "epochs", "machine", "", "campaigns", "first", "last", "change points"]


def main() -> None:
    """Read the campaigns, print their history, and write it where it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="results folders, or archives (archive.py): at least 2")
    parser.add_argument("--html", type=Path, metavar="FILE", help="output: the history as a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="output: the history as JSON")
    arguments = parser.parse_args()
    found = history(read_campaigns(arguments.folders))
    if arguments.json:
        write_text(arguments.json, json.dumps(found, indent=1) + "\n")
    if arguments.html:
        write_text(
            arguments.html, render("history.html.j2", **found, places=places, with_unit=with_unit, metrics=METRICS)
        )
    for text in _lines(found["series"]):
        print(CONTROLS.sub("?", text))


def _lines(series: Sequence[Mapping]) -> Iterator[str]:
    """The lines that are printed: for each experiment, recipe and dataset a table, and a sentence for each change."""
    for group, own in groupby(series, lambda row: " / ".join(row[key] for key in GROUP)):
        rows, sentences = [], []
        for row in own:
            ends = [with_unit(row, row["points"][place]["value"]) for place in (0, -1)]
            setting = [row["trainer"], row["epochs"], row["machine"], METRICS[row["metric"]].heading]
            rows.append([*setting, len(row["points"]), *ends, row["note"] or len(row["changes"]) or "none"])
            sentences += [line for one in row["changes"] for line in (one["sentence"], "")]
        yield from (f"{group}:", *tabulate(rows, HEADINGS, disable_numparse=True).splitlines(), "", *sentences)


if __name__ == "__main__":
    run_command(main)
