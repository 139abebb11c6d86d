"""Runs that waited for data are named, and trainers that did get no verdict: their times are the loader's."""

import pytest
from records_for_tests import compared, disturbed, record, streamed

from trainmark.tables.remarks import waiting_sentences


@pytest.fixture
def verdicts(runs_of):
    """A function that gives the verdicts on 7 repeats of two trainers, at 1 s and 1.1 s an epoch, by metric.

    waiting: by framework, the share of its time that each repeat waited; one share for all, or None for no stream.
    """

    def verdicts_of(epochs=2, parities=None, changes=None, **waiting):
        records = []
        for name, seconds in (("a", 1.0), ("b", 1.1)):
            shares = waiting[name] if isinstance(waiting[name], list) else [waiting[name]] * 7
            for repeat, share in enumerate(shares, start=1):
                made = record(name, repeat, epochs=epochs, seconds=seconds, changes=changes)
                records.append(made if share is None else streamed(made, waiting=share))
        return {row["metric"]: row for row in compared(runs_of(*records), parities=parities)}

    return verdicts_of


# --- which runs ---------------------------------------------------------------------------------------------------


def test_runs_that_waited_are_named_by_trainer_with_their_share(runs_of):
    runs = runs_of(
        streamed(record("a", 1), waiting=0.5), streamed(record("a", 2), waiting=0.42),
        streamed(record("b", 1), waiting=0.101), streamed(record("b", 2), waiting=0.1), record("c"),
    )  # fmt: skip
    (sentence,) = waiting_sentences(runs)
    named = "a on cpu for 42 to 50 % of the time (runs 1-2), b on cpu for 10 % of the time (run 3)"
    assert sentence.startswith(f"Waited for data: {named}. Such times measure the loader")
    assert list(runs["waited"]) == [*(f"{share} % of its steady epochs" for share in (50, 42, 10)), "", ""]


def test_of_a_run_without_a_steady_epoch_all_epochs_count(runs_of):
    runs = runs_of(streamed(record("a", epochs=1), waiting=0.25))
    assert runs["waiting_share"].isna().all()
    assert list(runs["waited"]) == ["25 % of its epochs"]
    assert "a on cpu for 25 % of the time (run 1). " in waiting_sentences(runs)[0]


# --- verdicts -----------------------------------------------------------------------------------------------------


def test_inputs_in_memory_and_short_waits_leave_the_verdict(verdicts):
    for waiting in ({"a": None, "b": None}, {"a": 0.1, "b": 0.05}, {"a": None, "b": 0.0}):
        assert {row["verdict"] for row in verdicts(**waiting).values()} == {"slower"}


@pytest.mark.parametrize(
    ("waiting", "shares"), [({"a": 0.6, "b": 0.0}, "60 % and 0 %"), ({"a": None, "b": 0.2}, "0 % and 20 %")]
)
def test_a_verdict_on_a_trainer_that_waited_is_withheld_without_a_ratio(verdicts, waiting, shares):
    for row in verdicts(**waiting).values():
        assert row["verdict"] == f"withheld: waited for data ({shares} of the time)"
        assert (row["value"], row["low"], row["high"], row["runs"]) == (None, None, None, 7)


def test_the_median_run_decides_and_no_pair_is_left_out_for_its_own_time(verdicts):
    few = verdicts(a=[0.5] * 3 + [0.0] * 4, b=0.0)["steady_epoch_seconds"]
    assert (few["verdict"], few["runs"], few["left_out"]) == ("slower", 7, 0)
    many = verdicts(a=[0.5] * 4 + [0.0] * 3, b=0.0)["steady_epoch_seconds"]
    assert many["verdict"] == "withheld: waited for data (50 % and 0 % of the time)"


def test_other_reasons_come_first(verdicts):
    refused = verdicts(a=0.5, b=0.5, parities={("a on cpu", "b on cpu"): "different"})
    assert {row["verdict"] for row in refused.values()} == {"refused: different"}
    hit = verdicts(a=0.5, b=0.5, changes=disturbed(stopped_seconds=0.5))
    assert {row["verdict"] for row in hit.values()} == {"withheld: 7 of 7 pairs disturbed (stopped)"}
