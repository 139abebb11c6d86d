"""Do the claims of a config hold? Each names a row of the table of numbers, or is about the parity of pairs."""

from collections.abc import Iterable, Mapping
from math import inf

import pandas as pd

from trainmark.errors import did_you_mean
from trainmark.parity.compare import REFUSED
from trainmark.tables.comparability import is_withheld_for_disturbance
from trainmark.tables.formatting import counted, format_number, number_in_words, unit_in_words
from trainmark.tables.frames import SETTING, rows_of
from trainmark.tables.metrics import NOT_DISTINGUISHABLE, VERDICTS

MOST_LISTED = 12
"""Of more known values than this, only the nearest one is named, if there is one."""

WRONG = "wrong"
"""The status of a claim that can't be checked."""

FAILED = ("fails", WRONG)
"""The statuses of claims that end the workflow."""


def judged(claims: Iterable[Mapping], numbers: pd.DataFrame, parity: pd.DataFrame) -> list[dict]:
    """Judge claims, in the order of the config: what each says, its status, and a sentence.

    A claim "holds" if all of its number's interval, or the range of its runs, is within the bounds, and "fails" if all
    of it is outside. It is "undecided" if the interval contains a bound, if other work disturbed its runs or too many
    pairs and their times have no bounds, or if they have and the claim wants undisturbed ones; and "wrong" if it names
    no number, several, or one that is refused.
    """
    return [
        {"says": claim["says"]} | (_certified(claim, parity) if "pairs" in claim else _judged(claim, numbers))
        for claim in claims
    ]


def _certified(claim: Mapping, parity: pd.DataFrame) -> dict:
    where = claim.get("where", {})
    pairs = parity[(parity[list(where)] == list(where.values())).all(axis=1)]
    if pairs.empty:
        return {"status": WRONG, "sentence": "there are no pairs"}
    of, refused = counted(len(pairs), "pair"), rows_of(pairs[pairs["parity"].isin(REFUSED)])
    if refused:
        first = "{first} and {second}: {parity}".format_map(refused[0])
        return {"status": "fails", "sentence": f"{len(refused)} of {of} refused: {first}"}
    return {"status": "holds", "sentence": f"{len(pairs)} of {of} certified"}


def _judged(claim: Mapping, numbers: pd.DataFrame) -> dict:
    where = {"statistic": "ratio" if "compared_with" in claim["where"] else "median"} | claim["where"]
    row = _row(where, numbers)
    if isinstance(row, str):
        return {"status": WRONG, "sentence": row}
    if row["value"] is None:
        why = row["verdict"] or "it was not measured"
        status = "undecided" if is_withheld_for_disturbance(why) else WRONG
        return {"status": status, "sentence": f"there is no number: {why}"}
    status, sentence = _by_verdict(claim["verdict"], row) if "verdict" in claim else _by_bounds(claim, row)
    if claim.get("undisturbed") and (row["bounded"] or row["disturbed_times"]):
        status, sentence = "undecided", ", and the claim wants undisturbed runs"
    return {"status": status, "sentence": f"{number_in_words(row)}{sentence}"}


def _row(where: Mapping, numbers: pd.DataFrame) -> dict | str:
    """Return the only row of the numbers with these values, or why there is none."""
    rows = numbers
    for column, value in where.items():
        found = rows[(rows[column] == value).fillna(False)]
        if found.empty:
            known = [str(one) for one in sorted(rows[column].dropna().unique()) if one != ""]
            near = did_you_mean(value, known) if len(known) > MOST_LISTED else ""
            hint = near or f"; allowed: {', '.join(known) or 'nothing'}"
            return f"no such number has {column}: {value}{hint}"
        rows = found
    if len(rows) > 1:
        keys = [*SETTING, "variant", "compared_with", "metric", "statistic"]
        unlike = [f"{key} ({', '.join(map(str, values))})" for key in keys if len(values := rows[key].unique()) > 1]
        return f"it names {len(rows)} numbers, which differ in {' and '.join(unlike)}; allowed: one of each"
    return rows_of(rows)[0]


def _by_verdict(claimed: str, row: Mapping) -> tuple[str, str]:
    """The status of a claim of a verdict, and how its sentence ends."""
    found = row["verdict"]
    if found == NOT_DISTINGUISHABLE and row["bounded"]:  # bounds hide small differences
        return "undecided", f": {found} within bounds"
    is_open = found == NOT_DISTINGUISHABLE or is_withheld_for_disturbance(found)
    status = "undecided" if is_open else "fails" if found in VERDICTS else WRONG
    return "holds" if found == claimed else status, f": {found or 'it has no verdict'}"


def _by_bounds(claim: Mapping, row: Mapping) -> tuple[str, str]:
    """The same of a claim of bounds."""
    given = [key for key in ("at_least", "at_most") if key in claim]
    texts = [f"{key.replace('_', ' ')} {format_number(row, claim[key])} {unit_in_words(row)}".strip() for key in given]
    bounds, least, most = " and ".join(texts), claim.get("at_least", -inf), claim.get("at_most", inf)
    if row["disturbed_times"] and not row["bounded"]:  # other work may have made it true, or false
        return "undecided", f" may or may not be {bounds} without what disturbed them"
    if None in (row["low"], row["high"]) or (row["statistic"] == "median" and row["runs"] == 1):
        return "undecided", f", without an interval: {row['verdict'] or 'one run has no range'}"
    if least <= row["low"] and row["high"] <= most:
        return "holds", f" is {bounds}"
    is_outside = row["high"] < least or most < row["low"]
    return ("fails", f" is not {bounds}") if is_outside else ("undecided", f" may or may not be {bounds}")
