"""Runs are not ranked if their first losses differ, or if another trainer evaluates their weights differently."""

import pytest
from records_for_tests import (
    certificates_of,
    compared,
    diverged,
    evaluated,
    evaluation_entry,
    losing,
    out_of_memory,
    record,
    written_tables,
)

from trainmark.checks.pairs_of_runs import wrong_pairs


@pytest.fixture
def pairs(tmp_path):
    """A function that gives the wrong pairs of these records; every two trainers are certified."""

    def wrong_pairs_of(*records, evaluations=(), certified=2e-8):
        by_path, runs = written_tables(tmp_path, *records)
        certificates = certificates_of(runs)
        for certificate in certificates.values():
            certificate["pairs"][0]["float32"] = {"loss": certified}
        return wrong_pairs(by_path, certificates, evaluations)

    return wrong_pairs_of


def sentence_of(wrong):
    """The sentence of the only wrong pair, which is there in both orders."""
    assert len(wrong) == 2
    assert len(set(wrong.values())) == 1
    return next(iter(wrong.values()))


def evaluation(*records, loss=0.0, accuracy=0.0, **changes):
    """What another trainer makes of these runs: so much more than the records say."""
    entries = {}
    for one in records:
        other_loss = loss if loss == "NaN" else one["result"]["test_loss"] + loss  # as it stands in the file
        results = {"loss": other_loss, "accuracy": one["result"]["test_accuracy"] + accuracy}
        entries[one["run"]["id"]] = evaluation_entry(one, **results | changes)
    return {"trainer": "other-cpu", "runs": entries}


@pytest.mark.parametrize("loss", [0.5, 0.5 * (1 + 4e-7)])
def test_runs_with_equal_first_losses_but_for_rounding_are_ranked(pairs, loss):
    assert pairs(record("a"), record("b", changes=losing([loss]))) == {}


def test_another_first_loss_is_named_with_its_runs(pairs):
    wrong = pairs(record("a"), record("b"), record("a", 2), record("b", 2, changes=losing([0.50002174])))
    first, second = (f"e/mnist-mlp-flux/digits/{name}-cpu/epochs-2/repeat-2" for name in "ab")
    assert f"first losses of the runs {first} and {second} differ by 4.4e-05; " in sentence_of(wrong)


def test_three_times_the_difference_in_the_certificate_is_allowed(pairs):
    records = [record("a"), record("b", changes=losing([0.5 * (1 + 5e-6)]))]
    assert pairs(*records)
    assert pairs(*records, certified=2e-6) == {}


def test_with_dropout_the_evaluation_before_training_counts_instead_of_the_first_loss(pairs):
    def of(name, first_loss, initial_loss):
        evaluation = evaluated(initial_loss, 0.1)
        losses = losing([first_loss])
        return record(name, changes={"network.dropout": True, "initial_evaluation": evaluation} | losses)

    assert pairs(of("a", 2.3, 2.25), of("b", 2.4, 2.25)) == {}
    wrong = pairs(of("a", 2.3, 2.25), of("b", 2.4, 2.26))
    assert "the test losses before training of the runs" in sentence_of(wrong)


def test_a_censored_run_is_not_checked(pairs):
    assert pairs(record("a"), diverged("b")) == {}
    assert pairs(record("a"), out_of_memory("b")) == {}


@pytest.mark.parametrize("apart", [{}, {"loss": 2e-5}, {"accuracy": 1 / 359}])
def test_runs_whose_evaluations_match_their_records_are_ranked(pairs, apart):
    records = [record("a"), record("b")]
    assert pairs(*records, evaluations=[evaluation(*records, **apart)]) == {}


@pytest.mark.parametrize("apart", [{"loss": 1e-3}, {"accuracy": 0.01}, {"weights_sha256": "f" * 64}, {"loss": "NaN"}])
def test_runs_whose_evaluations_differ_from_their_records_are_named(pairs, apart):
    records = [record("a"), record("b"), record("c")]
    wrong = pairs(*records, evaluations=[evaluation(records[0], **apart)])
    assert {key[3:] for key in wrong} == {
        (f"{x} on cpu", f"{y} on cpu") for x, y in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"))
    }
    sentence, run_id = next(iter(wrong.values())), records[0]["run"]["id"]
    assert sentence.startswith(f"different: other on cpu evaluates the weights of the run {run_id} to a test")
    assert sentence.endswith("but its record says 0.5 and 75.00%")


def test_a_wrong_pair_is_refused_whatever_its_certificate_says(tmp_path):
    records = [record(name, repeat) for name in "ab" for repeat in range(1, 8)]
    by_path, runs = written_tables(tmp_path, *records)
    certificates = certificates_of(runs)
    wrong = wrong_pairs(by_path, certificates, [evaluation(records[3], loss=0.1)])
    (row, _) = compared(runs, certificates=certificates, wrong=wrong)
    assert (row["verdict"], row["parity"], row["runs"]) == ("refused: different", "different", 7)
    assert row["reason"] == next(iter(wrong.values()))
    (row, _) = compared(runs, certificates=certificates)
    assert row["parity"] == "rounding"
