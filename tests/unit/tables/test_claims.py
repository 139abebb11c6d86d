"""A claim holds or fails if all of its number's interval is on one side of its bounds; otherwise it is undecided."""

import pandas as pd
import pytest
from records_for_tests import certificates_of, disturbed, record, written_tables

from trainmark.tables.claims import claims_table
from trainmark.tables.comparisons import comparisons_table, parity_table
from trainmark.tables.tables import rows_of
from trainmark.tables.tidy import numbers_table

OF_TIMES = {"metric": "training_seconds", "epochs": 2}
RATIO = {"framework": "b", "compared_with": "a on cpu", **OF_TIMES}
EVEN = {"statistic": "break_even", "metric": "training_seconds", "framework": "b"}
LOSS = {"framework": "a", "metric": "test_loss", "epochs": 2}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A function that judges a claim on a, on b, which takes twice the time, and on c, which trains something else."""
    records = [
        record(name, repeat, seconds=seconds + repeat / 100, loss=0.4 + repeat / 100)
        for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 1.0))
        for repeat in range(1, 7)
    ]
    busy = [record("busy", repeat, changes=disturbed(foreign_seconds=1.0)) for repeat in range(1, 7)]
    _, runs = written_tables(tmp_path_factory.mktemp("claims"), *records, record("d"), *busy)
    parities = {("a on cpu", "c on cpu"): "different"}
    certificates = certificates_of(runs, parities)
    compared = comparisons_table(runs, certificates)
    others = dict.fromkeys(("variants", "speed_ups", "targets", "scaling"), compared[:0])
    even = {"experiment": "e", "recipe": "r", "dataset": "d", "first": "a on cpu", "second": "b on cpu", "pairs": 6}
    even |= {"metric": "training_seconds", "epochs": 9.0, "low": 3.0, "high": None, "faster_after": "b on cpu"}
    others["break_even"] = pd.DataFrame([even])
    numbers = numbers_table({"runs": runs, "comparisons": compared, **others}, "EUR")
    parity = parity_table(runs, certificates)

    def judge(**claim):
        (row,) = rows_of(claims_table([{"says": "It is so.", **claim}], numbers, parity))
        return row

    return judge


@pytest.mark.parametrize(
    ("status", "claim"),
    [
        ("holds", {"where": RATIO, "at_most": 2.1}),
        ("holds", {"where": LOSS, "at_least": 0.41, "at_most": 0.46}),
        ("holds", {"where": RATIO, "verdict": "slower"}),
        ("fails", {"where": RATIO, "at_most": 1.5}),
        ("fails", {"where": LOSS, "at_least": 0.5}),
        ("fails", {"where": RATIO, "verdict": "faster"}),
        ("fails", {"pairs": "certified"}),
        ("undecided", {"where": LOSS, "at_most": 0.45}),
        ("undecided", {"where": EVEN, "at_most": 100}),
        ("undecided", {"where": LOSS | {"framework": "d"}, "at_most": 0.9}),
        ("undecided", {"where": {"framework": "busy", **OF_TIMES}, "at_most": 100}),
        ("undecided", {"where": {"framework": "busy", **OF_TIMES}, "at_least": 100}),
        ("undecided", {"where": RATIO | {"framework": "busy"}, "at_most": 100}),
        ("holds", {"where": LOSS | {"framework": "busy"}, "at_most": 0.9}),
    ],
)
def test_a_claim_is_judged_by_the_interval_of_its_number(judged, status, claim):
    row = judged(**claim)
    assert row["status"] == status, row["sentence"]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (
            RATIO | {"metric": "training_second"},
            "no such number has metric: training_second; allowed: steady_epoch_seconds, training_seconds",
        ),
        (RATIO | {"compared_with": "b on cpu"}, "no such number has compared_with: b on cpu; allowed: a on cpu"),
        (RATIO | {"framework": "c"}, "there is no number: refused: different"),
        (
            {"metric": "test_loss", "epochs": 2},
            "it names 5 numbers, which differ in framework (a, b, c, d, busy); allowed",
        ),
    ],
)
def test_a_claim_that_names_no_number_is_wrong(judged, where, sentence):
    row = judged(where=where, at_most=1)
    assert row["status"] == "wrong"
    assert row["sentence"].startswith(sentence), row["sentence"]
