"""Do the claims of a config hold? From the tidy table, of which each claim names a row, and the parity of all pairs."""

from collections.abc import Iterable, Mapping

import pandas as pd

from trainmark.errors import did_you_mean
from trainmark.parity.compare import REFUSED
from trainmark.tables.comparability import is_withheld_for_disturbance
from trainmark.tables.comparisons import NOT_DISTINGUISHABLE, VERDICTS
from trainmark.tables.formatting import counted, format_number, number_in_words, unit_in_words
from trainmark.tables.tables import SETTING, rows_of

COLUMNS = ["says", "status", "sentence", "value", "low", "high", "unit", "runs"]

MOST_LISTED = 12
"""Of more known values than this, only the nearest one is named, if there is one."""

WRONG = "wrong"
"""The status of a claim that can't be checked."""

FAILED = ("fails", WRONG)
"""The statuses of claims that end the workflow."""


def claims_table(claims: Iterable[Mapping], numbers: pd.DataFrame, parity: pd.DataFrame) -> pd.DataFrame:
    """Make the table of claims: a row for each, in the order of the config.

    claims: `claims` of the config.
    numbers: from `tidy.numbers_table`. parity: from `parity_table`.

    A claim "holds" if all of its number's interval, or the range of its runs, is within the bounds, and "fails" if all
    of it is outside. It is "undecided" if the interval contains a bound, or other work disturbed
    its runs or too many pairs, and "wrong" if it names no number, several, or one that is refused.
    """
    rows = []
    for claim in claims:
        row = _certified(claim, parity) if "pairs" in claim else _judged(claim, numbers)
        rows.append({"says": claim["says"]} | row)
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(("value", "low", "high"), "float64"))


def _certified(claim: Mapping, parity: pd.DataFrame) -> dict:
    where = claim.get("where", {})
    pairs = parity[(parity[list(where)] == list(where.values())).all(axis=1)] if where else parity
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
    status, sentence = _verdict_of(claim, row) if "verdict" in claim else _within_bounds(claim, row)
    return {"status": status, "sentence": sentence} | {name: row[name] for name in COLUMNS[3:]}


def _row(where: Mapping, numbers: pd.DataFrame) -> dict | str:
    """Return the only row of the numbers with these values, or why there is none."""
    rows = numbers
    for column, value in where.items():
        found = rows[(rows[column] == value).fillna(False)]
        if found.empty:
            known = [str(one) for one in sorted(rows[column].dropna().unique())]
            near = did_you_mean(value, known) if len(known) > MOST_LISTED else ""
            hint = near or f"; allowed: {', '.join(known) or 'nothing'}"
            return f"no such number has {column}: {value}{hint}"
        rows = found
    if len(rows) > 1:
        keys = [*SETTING, "compared_with", "metric", "statistic"]
        unlike = [f"{key} ({', '.join(map(str, values))})" for key in keys if len(values := rows[key].unique()) > 1]
        return f"it names {len(rows)} numbers, which differ in {' and '.join(unlike)}; allowed: one of each"
    return rows_of(rows)[0]


def _verdict_of(claim: Mapping, row: Mapping) -> tuple[str, str]:
    found, number = row["verdict"], number_in_words(row)
    if found == claim["verdict"]:
        return "holds", f"{number}: {found}"
    if found == NOT_DISTINGUISHABLE:
        return "undecided", f"{number}: {found}"
    return "fails" if found in VERDICTS else WRONG, f"{number}: {found or 'it has no verdict'}"


def _within_bounds(claim: Mapping, row: Mapping) -> tuple[str, str]:
    least, most = claim.get("at_least"), claim.get("at_most")
    texts = {f"at {word}": bound for word, bound in (("least", least), ("most", most)) if bound is not None}
    ends = [f"{words} {format_number(row, bound)} {unit_in_words(row)}".strip() for words, bound in texts.items()]
    number, bounds = number_in_words(row), " and ".join(ends)
    if row["disturbed_times"]:  # other work may have made it true, or false
        return "undecided", f"{number} may or may not be {bounds} without what disturbed them"
    if None in (row["low"], row["high"]) or (row["statistic"] == "median" and row["runs"] == 1):
        return "undecided", f"{number}, without an interval: {row['verdict'] or 'one run has no range'}"
    lower, upper = (-float("inf") if least is None else least), (float("inf") if most is None else most)
    if lower <= row["low"] and row["high"] <= upper:
        return "holds", f"{number} is {bounds}"
    if row["high"] < lower or upper < row["low"]:
        return "fails", f"{number} is not {bounds}"
    return "undecided", f"{number} may or may not be {bounds}"
