"""The table of all numbers: a row for each, with its unit, its interval, the runs behind it, and its verdict.

Whatever people read is a choice of these rows. A number that is missing has a row, too, whose verdict says why.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

import pandas as pd

from trainmark.records.record import PHASES, decode_loss
from trainmark.tables.bounds import LEAST
from trainmark.tables.break_even import break_evens
from trainmark.tables.formatting import why_absent
from trainmark.tables.frames import SETTING, groups, number, read_table, timed_runs
from trainmark.tables.metrics import CURRENCY, WITH_MEDIAN, Metric
from trainmark.tables.pairs import Pair, comparisons, scaling, speed_ups
from trainmark.tables.targets import times_to_accuracy

COLUMNS = [
    *SETTING, "variant", "compared_with", "metric", "unit", "statistic", "value", "low", "high", "runs",
    "bounded", "disturbed_times", "verdict", "reason", "note", "parity", "p_value", "compared", "detectable",
    "left_out", "left_out_reasons", "run_numbers", "left_out_run_numbers",
]  # fmt: skip

TYPES = (
    dict.fromkeys({*COLUMNS} - {*SETTING}, "str")
    | dict.fromkeys(("value", "low", "high", "p_value", "compared", "detectable"), "float64")
    | dict.fromkeys(("epochs", "runs", "bounded", "left_out"), "Int64")
    | {"disturbed_times": "bool"}
)


def numbers_table(
    runs: pd.DataFrame, pairs: Iterable[Pair], others: Iterable[Mapping] = (), currency: str = CURRENCY
) -> pd.DataFrame:
    """Make the table of all numbers of these runs and pairs; columns are in docs/columns.md.

    others: further rows, of tunings, agreements and published results. currency: that of costs.
    """
    ratios, number_of = comparisons(pairs), runs.set_index("id")["number"].astype("str")
    rows = [*medians(runs, currency), *ratios, *speed_ups(ratios), *break_evens(runs, ratios)]
    rows += [*times_to_accuracy(runs), *scaling(ratios)]
    rows += [{**row, "run_numbers": " ".join(number_of[row.get("run_ids", [])])} for row in others]
    return as_table(rows)


def as_table(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Rows of numbers as a table."""
    table = pd.DataFrame([{key: row.get(key) for key in COLUMNS} for row in rows], columns=COLUMNS)
    missing = {column: "" for column, kind in TYPES.items() if kind == "str"}
    return table.fillna(missing | {"disturbed_times": False}).astype(TYPES)


def read_numbers(file: Path) -> pd.DataFrame:
    """Read the table from its file."""
    return read_table(file, TYPES)


def medians(runs: pd.DataFrame, currency: str = CURRENCY) -> Iterator[dict]:
    """Yield the median of each metric of each setting, with its smallest and its largest value.

    Censored runs (diverged or out of memory) do not enter. Of what a disturbance changes, medians are of the
    `timed_runs`; if all of these are disturbed and have bounds, the smallest value is the least bound. Runs that waited
    for data enter. Repeats are too few for a finer measure of spread.
    """
    shares = {f"phase_shares.{phase}": runs[f"phases.{phase}"] / runs["wall_seconds"] for phase in PHASES}
    scores = [{name: decode_loss(text["probability"]) for name, text in own.items()} for own in _scored(runs)]
    scored = pd.DataFrame(scores, runs.index, dtype="float64")
    metrics = WITH_MEDIAN | dict.fromkeys(map(str, scored), Metric("score", "1", is_lasting=True))
    runs = runs.assign(**shares).join(scored)
    timed_numbers = timed_runs(runs[runs["status"] == "ok"])["number"]
    for values, group in groups(runs, SETTING):
        finished = group[group["status"] == "ok"]
        timed = finished[finished["number"].isin(timed_numbers)]
        is_disturbed = any(timed["disturbed"] != "")
        setting = dict(zip(SETTING, values, strict=True))
        setting["run_numbers"] = " ".join(map(str, sorted(group["number"])))
        for name, metric in metrics.items():
            present = (finished if metric.is_lasting else timed)[name].dropna().tolist()
            about = {"runs": len(present), "verdict": "" if present else why_absent(group["status"])}
            about["disturbed_times"] = is_disturbed and not metric.is_lasting
            least = min(present, default=0.0)
            if about["disturbed_times"] and name in LEAST and timed[LEAST[name]].notna().all():
                least, about["bounded"] = timed[LEAST[name]].min(), len(present)
            ends = (median(present), least, max(present)) if present else ()
            unit = currency if metric.unit == CURRENCY else metric.unit
            yield number(setting, "median", name, unit, ends, **about)


def scored_texts(runs: pd.DataFrame) -> dict[str, dict]:
    """The texts that runs scored, by the name of their metric."""
    return {name: text for own in _scored(runs) for name, text in own.items()}


def _scored(runs: pd.DataFrame) -> list[dict[str, dict]]:
    """The same of each run."""
    texts = map(json.loads, runs["scored_texts"])
    return [{f"scored_texts.{text['split']}.{text['index']}": text for text in own} for own in texts]
