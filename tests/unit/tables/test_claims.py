"""A claim holds or fails if all of its number's interval is on one side of its bounds; otherwise it is undecided."""

import pytest
from records_for_tests import certificates_of, compared_pairs, disturbed, record, written_tables

from trainmark.tables.claims import judged
from trainmark.tables.numbers import numbers_table
from trainmark.tables.trainers import parity_table, trainer_pairs

OF_TIMES = {"metric": "training_seconds", "epochs": 2}
RATIO = {"framework": "b", "compared_with": "a on cpu", **OF_TIMES}
LOSS = {"framework": "a", "metric": "test_loss", "epochs": 2}

LOAD = disturbed(foreign_seconds=0.12)
BOUNDED = OF_TIMES | {"framework": "loaded", "compared_with": "beside on cpu"}


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A function that judges a claim on a, on b, which takes twice the time, on c, which trains something else, and on
    two like a and b beside other work.
    """
    records = [
        record(name, repeat, seconds=seconds + repeat / 100, loss=0.4 + repeat / 100, changes=changes)
        for name, seconds, changes in (
            ("a", 1.0, {}), ("b", 2.0, {}), ("c", 1.0, {}), ("beside", 1.0, LOAD), ("loaded", 2.0, LOAD)
        )
        for repeat in range(1, 7)
    ]  # fmt: skip
    busy = [record("busy", repeat, changes=disturbed(foreign_seconds=1.0)) for repeat in range(1, 7)]
    _, runs = written_tables(tmp_path_factory.mktemp("claims"), *records, record("d"), *busy)
    certificates = certificates_of(runs, {("a on cpu", "c on cpu"): "different"})
    numbers = numbers_table(runs, compared_pairs(runs, certificates=certificates))
    parity = parity_table(trainer_pairs(runs, certificates))

    def judge_one(**claim):
        (found,) = judged([{"says": "It is so.", **claim}], numbers, parity)
        return found["status"], found["sentence"]

    return judge_one


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
        ("undecided", {"where": LOSS | {"framework": "d"}, "at_most": 0.9}),
        ("undecided", {"where": {"framework": "busy", **OF_TIMES}, "at_most": 100}),
        ("undecided", {"where": {"framework": "busy", **OF_TIMES}, "at_least": 100}),
        ("undecided", {"where": RATIO | {"framework": "busy"}, "at_most": 100}),
        ("holds", {"where": LOSS | {"framework": "busy"}, "at_most": 0.9}),
        ("holds", {"where": BOUNDED, "at_least": 1.3, "at_most": 2.8}),
        ("undecided", {"where": BOUNDED, "at_most": 1.9}),
        ("undecided", {"where": BOUNDED, "at_most": 2.8, "undisturbed": True}),
        ("holds", {"where": BOUNDED, "verdict": "slower"}),
        ("undecided", {"where": BOUNDED, "verdict": "slower", "undisturbed": True}),
        ("holds", {"where": RATIO, "verdict": "slower", "undisturbed": True}),
        ("undecided", {"where": {"framework": "beside", **OF_TIMES}, "at_most": 2.5, "undisturbed": True}),
        ("holds", {"where": {"framework": "beside", **OF_TIMES}, "at_least": 1.5, "at_most": 2.7}),
        ("undecided", {"where": {"framework": "beside", **OF_TIMES}, "at_least": 2.4}),
    ],
)
def test_a_claim_is_judged_by_the_interval_of_its_number(judge, status, claim):
    found, sentence = judge(**claim)
    assert found == status, sentence


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (
            RATIO | {"metric": "training_second"},
            "no such number has metric: training_second; allowed: steady_epoch_seconds, training_seconds",
        ),
        (RATIO | {"compared_with": "b on cpu"}, "no such number has compared_with: b on cpu; allowed: a on cpu"),
        (RATIO | {"framework": "c"}, "there is no number: refused: different"),
        (
            {"statistic": "break_even", "framework": "a", "compared_with": "b on cpu", "metric": "wall_seconds"},
            "there is no number: always faster",
        ),
        (
            {"metric": "test_loss", "epochs": 2},
            "it names 7 numbers, which differ in framework (a, b, c, beside, loaded, d, busy); allowed",
        ),
    ],
)
def test_a_claim_that_names_no_number_is_wrong(judge, where, says):
    status, sentence = judge(where=where, at_most=1)
    assert status == "wrong" and sentence.startswith(says), sentence
