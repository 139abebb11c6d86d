"""Compare two campaigns: what may be claimed, what is the same, and the ratio of the second to the first.

The exit status is 0; with --fail-if-slower it is 1 if the training time of a setting is proven to be longer by more.
"""

import argparse
import re
import sys
from pathlib import Path

from trainmark.campaigns.differences import SLOWER, compare, judged
from trainmark.campaigns.folders import read_campaigns
from trainmark.campaigns.presented import as_json, as_page, as_text, document
from trainmark.errors import run_command
from trainmark.files.whole import write_text


def main() -> None:
    """Read both campaigns, print what they show, and write it where it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="results folder, or archive (archive.py), of the earlier campaign")
    parser.add_argument("second", type=Path, help="that of the later one, or of the other machine")
    parser.add_argument("--fail-if-slower", type=_limit, metavar="5%", help="exit with 1 if this is proven")
    parser.add_argument("--html", type=Path, metavar="FILE", help="output: the comparison as a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="output: the comparison as JSON")
    arguments = parser.parse_args()
    comparison = compare(*read_campaigns([arguments.first, arguments.second]))
    verdicts = judged(comparison, arguments.fail_if_slower) if arguments.fail_if_slower else []
    shown = document(comparison, verdicts)
    for file, form in ((arguments.html, as_page), (arguments.json, as_json)):
        if file:
            write_text(file, form(shown))
    print(as_text(shown), end="")
    sys.exit(any(verdict == SLOWER for verdict, _ in verdicts))


def _limit(text: str) -> float:
    """1.05 of "5%" or "5 %"."""
    written = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", text.strip())
    if not written:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: a percentage such as 5%")
    return 1 + float(written[1]) / 100


if __name__ == "__main__":
    run_command(main)
