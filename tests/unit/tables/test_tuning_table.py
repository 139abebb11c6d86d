"""The table of timed tunings: ratios of the turns, and the times of epochs that follow from them."""

import pytest
from records_for_tests import record, timed_tuning

from trainmark.errors import RecordError
from trainmark.tables.consistency import check_tunings
from trainmark.tables.tuning import COLUMNS, tuning_table

OF = "e/mnist-mlp-flux/digits/a-cpu-tuned"


def test_ratios_and_times_follow_from_the_turns():
    """Two epochs a turn; the third step was tried and not taken, and the fourth compares without it."""
    rows = tuning_table([timed_tuning([0.5, 0.8, 1.5, 0.9], taken=[True, True, False, True])])
    assert list(rows) == COLUMNS
    assert rows["ratio"].tolist() == pytest.approx([0.5, 0.8, 1.5, 0.9], rel=1e-3)
    assert rows["before_epoch_seconds"].tolist() == pytest.approx([4.0, 2.0, 1.6, 1.6], rel=2e-3)
    assert rows["epoch_seconds"].tolist() == pytest.approx([2.0, 1.6, 2.4, 1.44], rel=3e-3)
    assert (rows["low"] <= rows["ratio"]).all() and (rows["ratio"] <= rows["high"]).all()
    assert rows["pairs"].tolist() == [6] * 4 and rows["taken"].tolist() == [True, True, False, True]
    assert set(rows["framework"]) == {"a"} and set(rows["loop"]) == {"tuned"}


def test_a_tuning_must_be_of_its_path_and_of_the_settings_of_its_runs():
    tuned = record("a", loop="tuned", changes={"settings.time_tuning": True})
    tuning = timed_tuning(settings=tuned["settings"])
    check_tunings({OF: tuning}, [tuned, record("a")])
    with pytest.raises(RecordError, match=r"was made for e/mnist-mlp-flux/digits/a-cpu-tuned: it was copied"):
        check_tunings({OF.replace("/a-", "/b-"): tuning}, [tuned])
    other = timed_tuning(settings=tuned["settings"] | {"seed": 99})
    with pytest.raises(RecordError, match=r"other settings than the run .* \(seed: 99 and "):
        check_tunings({OF: other}, [tuned])
    check_tunings({OF: other}, [record("a")])  # the stock loop has nothing to do with it
