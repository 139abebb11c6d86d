"""Runs are not ranked if their first losses differ, or if another framework evaluates their weights differently."""

import pytest
from records_for_tests import certificates_of, diverged, out_of_memory, record, written_tables

from trainmark.tables.comparisons import comparisons_table
from trainmark.tables.run_checks import wrong_pairs


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
    """Another framework's evaluation of these runs; loss, accuracy: how much it exceeds the records."""
    return {
        "framework": "other", "device": "cpu", "versions": {},
        "runs": {
            one["run"]["id"]: {
                "weights_sha256": one["weights"]["sha256"],
                "loss": one["result"]["test_loss"] + loss,
                "accuracy": one["result"]["test_accuracy"] + accuracy,
            } | changes
            for one in records
        },
    }  # fmt: skip


@pytest.mark.parametrize("loss", [2.3, 2.3 * (1 + 4e-7)])
def test_runs_with_equal_first_losses_but_for_rounding_are_ranked(pairs, loss):
    assert pairs(record("a"), record("b", changes={"step_losses": [loss, 0.9]})) == {}


def test_another_first_loss_is_named_with_its_runs(pairs):
    wrong = pairs(record("a"), record("b"), record("a", 2), record("b", 2, changes={"step_losses": [2.3001, 0.3]}))
    sentence = sentence_of(wrong)
    assert sentence.startswith("different: the first losses of the runs e/")
    assert "/a/cpu/epochs-2/repeat-2 and " in sentence
    assert sentence.endswith("/b/cpu/epochs-2/repeat-2 differ by 4.3e-05; equal trainings differ by 5e-07 at most")


def test_three_times_the_difference_in_the_certificate_is_allowed(pairs):
    records = [record("a"), record("b", changes={"step_losses": [2.3 * (1 + 5e-6), 0.3]})]
    assert pairs(*records)
    assert pairs(*records, certified=2e-6) == {}


def test_with_dropout_the_evaluation_before_training_counts_instead_of_the_first_loss(pairs):
    def of(name, first_loss, initial_loss):
        evaluation = {"loss": initial_loss, "accuracy": 0.1}
        losses = {"step_losses": [first_loss, 0.3]}
        return record(name, changes={"settings.dropout": True, "initial_evaluation": evaluation} | losses)

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


@pytest.mark.parametrize(
    "apart", [{"loss": 1e-3}, {"accuracy": 0.01}, {"weights_sha256": "f" * 64}, {"loss": float("inf")}]
)
def test_runs_whose_evaluations_differ_from_their_records_are_named(pairs, apart):
    records = [record("a"), record("b"), record("c")]
    wrong = pairs(*records, evaluations=[evaluation(records[0], **apart)])
    assert {key[3:] for key in wrong} == {
        (f"{x} on cpu", f"{y} on cpu") for x, y in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"))
    }
    sentence = next(iter(wrong.values()))
    assert sentence.startswith(f"different: other evaluates the weights of the run {records[0]['run']['id']} to a test")
    assert sentence.endswith("but the run's record says 0.5 and 75.00%")


def test_a_wrong_pair_is_refused_whatever_its_certificate_says(tmp_path):
    records = [record(name, repeat) for name in "ab" for repeat in range(1, 8)]
    by_path, runs = written_tables(tmp_path, *records)
    certificates = certificates_of(runs)
    wrong = wrong_pairs(by_path, certificates, [evaluation(records[3], loss=0.1)])
    (row, _) = comparisons_table(runs, certificates, wrong).to_dict("records")
    assert (row["verdict"], row["parity"], row["pairs"]) == ("refused: different", "different", 7)
    assert row["reason"] == next(iter(wrong.values()))
    (row, _) = comparisons_table(runs, certificates).to_dict("records")
    assert row["parity"] == "rounding"
