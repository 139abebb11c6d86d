"""A disturbed run that is trained again: the record of its least disturbed attempt stays, and names the others."""

import pytest
from records_for_tests import disturbed, record

from trainmark.records.attempts import least_disturbed
from trainmark.records.record import read_record, write_record


def attempt(share, seconds=0.25, **changes):
    """A record with this share of foreign load; 0: undisturbed."""
    return record("a", seconds=seconds, changes=(disturbed(foreign_seconds=share) if share else {}) | changes)


@pytest.fixture
def run(tmp_path):
    """A function that trains a run once more; (its record, its weights, whose content is the attempt's number)."""
    folders = [tmp_path / name for name in ("key", "key.2", "key.3")]

    def train(new, is_of_this_run=lambda record: True):
        folder = next(one for one in folders if not one.exists())
        (folder / "work").mkdir(parents=True)
        (folder / "weights.npz").write_text(str(folders.index(folder) + 1))
        file = folder / "record.json"
        write_record(least_disturbed(new, file, is_of_this_run), file)
        return read_record(file), (folder / "weights.npz").read_text()

    return train


@pytest.mark.parametrize(
    ("shares", "kept"),
    [((0.1, 0.8), 1), ((0.8, 0.1), 2), ((0.8, 0.1, 0.9), 2), ((0.1, 0), 2), ((0.5, 0.5), 2), ((0.9, 0.8, 0.1), 3)],
)
def test_the_least_disturbed_attempt_counts_and_all_are_known(run, shares, kept, tmp_path):
    attempts = [attempt(share, number / 12) for number, share in enumerate(shares, start=1)]
    for one in attempts:
        found, weights = run(one)
    assert found["result"] == attempts[kept - 1]["result"] and weights == str(kept)
    others = [one for one in attempts if one is not attempts[kept - 1]]
    assert [one["disturbed"] for one in found["other_attempts"]] == [one["disturbed"] for one in others]
    assert [one["training_seconds"] for one in found["other_attempts"]] == [
        one["result"]["training_seconds"] for one in others
    ]
    first = tmp_path / "key"
    assert read_record(first / "record.json") == attempts[0] and (first / "weights.npz").read_text() == "1"


def test_an_attempt_of_other_settings_is_no_attempt_of_this_run(run):
    run(attempt(0.1))
    assert run(attempt(0.8), is_of_this_run=lambda record: False)[0] == attempt(0.8)


def test_an_attempt_that_diverged_does_not_replace_one_that_ended(run):
    run(attempt(0.9))
    failed = attempt(0, status="diverged")
    assert run(failed)[0]["disturbed"] == attempt(0.9)["disturbed"]
