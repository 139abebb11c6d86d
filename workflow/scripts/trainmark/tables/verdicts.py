"""What must stand beside a verdict, and which trainers must not be ranked."""

from collections.abc import Mapping
from math import isinf

import pandas as pd

from trainmark.parity.compare import REFUSED
from trainmark.parity.sentences import EQUAL
from trainmark.tables.comparability import is_withheld_for_disturbance
from trainmark.tables.formatting import bounded_in_words, format_ratio
from trainmark.tables.metrics import NOT_DISTINGUISHABLE
from trainmark.tables.variants import OTHER_SETTINGS

NAMED = 3
"""A line that has little room names at most so many pairs."""


def verdict_notes(row: Mapping) -> list[str]:
    """What a reader of the verdict of a ratio must know."""
    detectable = ""
    if row["verdict"] == NOT_DISTINGUISHABLE and not row["low"] == row["high"] == 1 and not isinf(row["detectable"]):
        quiet = "on a quiet machine, " if row["bounded"] else ""
        detectable = f"{quiet}a ratio of {format_ratio(row['detectable'])} would have been found in 4 of 5 cases"
    return [*filter(None, (why_not_distinguishable(row), detectable, bounded_in_words(row), row["note"]))]


def short_note(row: Mapping) -> str:
    """The part of it that a line has room for."""
    return "; ".join(filter(None, (why_not_distinguishable(row), bounded_in_words(row))))


def why_not_distinguishable(row: Mapping) -> str:
    """Why a verdict is "not distinguishable", if its interval does not show it; else ""."""
    if row["verdict"] != NOT_DISTINGUISHABLE:
        return ""
    if row["low"] == row["high"] == 1:
        return "equal in all pairs"
    if isinf(row["detectable"]):
        return f"{row['runs']} pairs are too few for {row['compared']:.0f} comparisons"
    if row["low"] <= 1 <= row["high"]:
        return ""
    return f"among {row['compared']:.0f} comparisons, such an interval occurs by chance"


def reasons_beside_verdict(row: Mapping) -> str:
    """Why pairs were left out; "" if the verdict says so itself, as in "withheld: 6 of 6 pairs disturbed"."""
    return "" if is_withheld_for_disturbance(row["verdict"]) else row["left_out_reasons"]


def refused_pairs(parity: pd.DataFrame) -> pd.DataFrame:
    """Select the pairs of trainers that must not be ranked. parity: a table of pairs."""
    return parity[parity["parity"].isin(REFUSED)]


def not_ranked(parity: pd.DataFrame) -> list[str]:
    """A line for each pair of trainers that must not be ranked."""
    refused = refused_pairs(parity)
    return list(refused["first"] + " and " + refused["second"] + ": " + refused["reason"])


def short_refusals(parity: pd.DataFrame) -> str:
    """The same as one line, which names at most NAMED of them; "" if there is none."""
    refused = refused_pairs(parity)
    named = ", ".join(refused["first"][:NAMED] + " and " + refused["second"][:NAMED])
    more = f", and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
    return f"Not ranked: {named}{more}" if named else ""


def parity_note(parity: pd.DataFrame) -> str:
    """The note in the caption of a figure of a group: the pairs that must not be ranked; if there are none, the parity
    classes of all pairs, or the settings in which variants differ; "" for one trainer.
    """
    if lines := not_ranked(parity):
        return f"Not to be ranked: {'; '.join(lines)}."
    found = set(parity["parity"])
    if OTHER_SETTINGS in found:
        return "; ".join(parity["reason"].unique()) + "."
    classes = [words for name, words in EQUAL.items() if name in found]
    return f"Parity of all pairs (float64): {' or '.join(classes)}." if classes else ""
