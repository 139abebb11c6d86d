"""Where a run diverged, its results, and its scored texts."""

import numpy as np
import pytest
from records_for_tests import evaluated

from trainmark.recipes.outputs import Evaluation
from trainmark.records.result import result
from trainmark.training.status import divergence

NAN, INF = float("nan"), float("inf")
FINITE = {"test": Evaluation(0.5, 0.9, None)}


@pytest.mark.parametrize(
    ("of_epoch", "found"),
    [
        ([3.0, 1e300, -1.0], None),
        ([NAN, 1.0], ["nan", 3, 7, 4.0]),
        ([3.0, INF, NAN], ["inf", 3, 8, 3.0]),  # an infinite loss is often followed by NaN
        ([3.0, 2.0, -INF], ["inf", 3, 9, 2.0]),
    ],
)
def test_the_first_step_that_is_not_finite_is_named(of_epoch, found):
    diverged = divergence(3, 6, np.array(of_epoch), 4.0, FINITE)
    assert (diverged and [*diverged.values()]) == found
    assert [type(value) for value in (diverged or {}).values()] in ([str, int, int, float], [])


@pytest.mark.parametrize(
    ("evaluations", "kind"),
    [
        ({"test": (NAN, 0.1)}, "nan"),
        ({"train": (0.5, 0.9), "test": (INF, 0.1)}, "inf"),
        ({"train": (INF, 0.1), "test": (NAN, 0.1)}, "nan"),
    ],
)
def test_if_only_the_evaluation_is_not_finite_the_epochs_last_step_is_named(evaluations, kind):
    evaluations = {split: Evaluation(*one, None) for split, one in evaluations.items()}
    found = divergence(2, 3, np.array([3.0, 2.0, 1.0]), 4.0, evaluations)
    assert found == {"kind": kind, "epoch": 2, "step": 6, "last_finite_loss": 1.0}


def epoch(part: str, seconds: float, **evaluations) -> dict:
    shown = {split: evaluated(*evaluation) for split, evaluation in evaluations.items()}
    return {
        "epoch": 1, "part": part, "seconds": seconds, "waiting_seconds": None, "batch_loss": 1.0, "evaluations": shown,
    }  # fmt: skip


def test_results_of_a_run_with_steady_epochs():
    curves = [
        epoch("warm_up", 9.0, test=(0.5, 0.8)),
        epoch("steady", 2.0, test=(0.4, 0.85)),
        epoch("steady", 1.0, test=(0.3, 0.9)),
        epoch("steady", 4.0, test=(0.2, 0.95, 0.99), train=(0.1, 0.99)),
    ]
    assert result(curves, 3.0, 1000) == {
        "epochs_trained": 4, "training_seconds": 19.0, "first_step_seconds": 3.0, "steady_epoch_seconds": 2.0,
        "samples_per_second": 500.0, "waiting_share": None, "test_loss": 0.2, "test_accuracy": 0.95,
        "test_top5_accuracy": 0.99, "train_loss": 0.1, "train_accuracy": 0.99,
    }  # fmt: skip


def test_a_run_without_steady_epochs_has_no_results_of_them():
    found = result([epoch("warm_up", 9.0, test=("NaN", 0.1))], 1.0, 1000)
    known = {"epochs_trained": 1, "training_seconds": 10.0, "first_step_seconds": 1.0}
    assert known_in(found) == known | {"test_loss": "NaN", "test_accuracy": 0.1}
    known = {"epochs_trained": 0, "training_seconds": 2.5, "first_step_seconds": 2.5}
    assert known_in(result([], 2.5, 1000)) == known
    assert known_in(result([], None, 1000)) == {"epochs_trained": 0}, "not even its first step"
    too_short = [epoch("warm_up", 1.0), epoch("steady", 0.0)]
    assert result(too_short, 1.0, 10)["samples_per_second"] is None


def known_in(found):
    return {name: value for name, value in found.items() if value is not None}


def test_the_share_of_waiting_is_that_of_the_steady_epochs():
    curves = [epoch(part, seconds) for part, seconds in (("warm_up", 9.0), ("steady", 2.0), ("steady", 6.0))]
    for entry, waiting in zip(curves, (9.0, 0.5, 1.5), strict=True):
        entry["waiting_seconds"] = waiting
    assert result(curves, 1.0, 10)["waiting_share"] == 0.25
    assert result(curves[:1], 1.0, 10)["waiting_share"] is None, "no steady epoch"
    assert result([curves[0], epoch("steady", 0.0)], 1.0, 10)["waiting_share"] is None, "no time"
