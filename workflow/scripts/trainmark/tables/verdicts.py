"""The table of comparisons in words: ratios, verdicts, and which trainers must not be ranked."""

import re
from collections.abc import Mapping
from math import isinf

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.parity.sentences import EQUAL
from trainmark.tables.formatting import format_ratio


def format_verdict(row: Mapping) -> str:
    """The verdict with its notes: "slower (in 1 of 6 pairs ...)"."""
    about = verdict_notes(row)
    return f"{row['verdict']} ({about})" if about else row["verdict"]


def verdict_notes(row: Mapping) -> str:
    """What a reader of the verdict must know; "" for nothing."""
    return "; ".join(filter(None, (_left_open(row), row["note"])))


def _left_open(row: Mapping) -> str:
    """What "not distinguishable" leaves open: the ratio that would have been found; "" for other verdicts."""
    if row["verdict"] != "not distinguishable":
        return ""
    if row["low"] == row["high"] == 1:
        return "equal in all pairs"
    if isinf(row["detectable"]):
        return f"{row['pairs']} pairs are too few for {row['compared']:.0f} comparisons"
    found = f"a ratio of {format_ratio(row['detectable'])} would have been found in 4 of 5 cases"
    if row["low"] <= 1 <= row["high"]:
        return found
    return f"among {row['compared']:.0f} comparisons, such an interval occurs by chance; {found}"


def absent_word(verdict: str) -> str:
    """The text shown in place of a missing ratio or interval: "too few pairs", "refused", ..."""
    return re.split(r" \(|:", verdict)[0]


def format_comparison(row: dict) -> str:
    """Format ratio and interval: "1.10 (1.08 to 1.13)"; only the ratio if there is no interval."""
    if pd.isna(row["ratio"]):
        return absent_word(row["verdict"])
    if pd.isna(row["low"]):
        return format_ratio(row["ratio"])
    return f"{format_ratio(row['ratio'])} ({format_ratio(row['low'])} to {format_ratio(row['high'])})"


def not_ranked(comparisons: pd.DataFrame) -> list[str]:
    """A heading, then a line for each pair of trainers that must not be ranked; empty if there is none."""
    refused = comparisons[comparisons["parity"].isin(REFUSED)].drop_duplicates(["first", "second", "parity", "reason"])
    lines = [f"{row['first']} and {row['second']}: {row['reason']}" for row in refused.to_dict("records")]
    return ["Not to be ranked:", *lines] if lines else []


def parity_note(comparisons: pd.DataFrame) -> str:
    """The note on parity below a figure of one group; empty if no trainers are compared.

    The note names the pairs that must not be ranked. If there are none, it gives the parity classes of all pairs. It is
    part of the figure because figures are used outside the report.
    """
    if lines := not_ranked(comparisons):
        return "\n".join(lines)
    classes = [words for name, words in EQUAL.items() if name in set(comparisons["parity"])]
    return f"Parity of all compared pairs (float64): {' or '.join(classes)}" if classes else ""
