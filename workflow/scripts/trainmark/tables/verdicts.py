"""The table of comparisons in words: ratios, verdicts, and which trainers must not be ranked."""

import re
from collections.abc import Mapping
from math import isinf

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.parity.sentences import EQUAL
from trainmark.tables.comparability import is_withheld_for_disturbance
from trainmark.tables.comparisons import NOT_DISTINGUISHABLE, OTHER_SETTINGS
from trainmark.tables.formatting import format_ratio

NAMED = 3
"""A line that has little room names at most so many pairs."""


def format_verdict(row: Mapping) -> str:
    """The verdict with its notes: "slower (in 1 of 6 pairs ...)"."""
    about = verdict_notes(row)
    return f"{row['verdict']} ({about})" if about else row["verdict"]


def verdict_notes(row: Mapping) -> str:
    """What a reader of the verdict must know; "" for nothing."""
    detectable = ""
    if row["verdict"] == NOT_DISTINGUISHABLE and not row["low"] == row["high"] == 1 and not isinf(row["detectable"]):
        detectable = f"a ratio of {format_ratio(row['detectable'])} would have been found in 4 of 5 cases"
    return "; ".join(filter(None, (why_not_distinguishable(row), detectable, row["note"])))


def why_not_distinguishable(row: Mapping) -> str:
    """Why a verdict is "not distinguishable", if its interval does not show it; else ""."""
    if row["verdict"] != NOT_DISTINGUISHABLE:
        return ""
    if row["low"] == row["high"] == 1:
        return "equal in all pairs"
    if isinf(row["detectable"]):
        return f"{row['pairs']} pairs are too few for {row['compared']:.0f} comparisons"
    if row["low"] <= 1 <= row["high"]:
        return ""
    return f"among {row['compared']:.0f} comparisons, such an interval occurs by chance"


def reasons_beside_verdict(row: Mapping) -> str:
    """Why pairs were left out; "" if the verdict says so itself, as in "withheld: 6 of 6 pairs disturbed"."""
    return "" if is_withheld_for_disturbance(row["verdict"]) else row["left_out_reasons"]


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


def certified_count(parity: pd.DataFrame) -> int:
    """The number of pairs that may be ranked. parity: a table of pairs, see `comparisons.parity_table`."""
    return int((~parity["parity"].isin(REFUSED)).sum())


def not_ranked(parity: pd.DataFrame) -> list[str]:
    """A heading, then a line for each pair of trainers that must not be ranked; empty if there is none."""
    refused = parity[parity["parity"].isin(REFUSED)]
    lines = [f"{row['first']} and {row['second']}: {row['reason']}" for row in refused.to_dict("records")]
    return ["Not to be ranked:", *lines] if lines else []


def parity_note(parity: pd.DataFrame) -> str:
    """The note on parity in the caption of a figure of one group; empty if it has one trainer.

    The note names the pairs that must not be ranked. If there are none, it gives the parity classes of all pairs; of
    variants, the settings in which they differ.

    parity: the rows of the group in the table of parities, which has all pairs, compared or not.
    """
    if lines := not_ranked(parity):
        return "\n".join(lines)
    if OTHER_SETTINGS in set(parity["parity"]):
        return "; ".join(parity["reason"].unique())
    classes = [words for name, words in EQUAL.items() if name in set(parity["parity"])]
    return f"Parity of all pairs (float64): {' or '.join(classes)}" if classes else ""


def short_refusals(parity: pd.DataFrame) -> str:
    """One line that names the pairs of trainers that must not be ranked, at most NAMED of them; empty if there is none.

    parity: as for `parity_note`.
    """
    refused = parity[parity["parity"].isin(REFUSED)]
    named = [f"{row['first']} and {row['second']}" for row in refused.head(NAMED).to_dict("records")]
    more = f", and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
    return f"Not ranked: {', '.join(named)}{more}" if named else ""
