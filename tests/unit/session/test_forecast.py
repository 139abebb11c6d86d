"""How long a campaign takes: by the records that there are or, without any, by its networks and the machine."""

import json
from pathlib import Path

import pytest
from planned_campaigns import config_of
from records_for_tests import place_of, record

from trainmark.plan.matrix import expand_runs, why_no_verdict, with_devices
from trainmark.session import forecast
from trainmark.session.forecast import RunTimes, estimate


@pytest.fixture
def estimated(tmp_path, monkeypatch):
    """The estimate of a campaign on a machine with two CPUs, whose matrix product does so many operations a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(forecast.os, "cpu_count", lambda: 2)

    def say(flops_per_second=1e12, **changes):
        monkeypatch.setattr(forecast, "_matrix_flops_per_second", lambda: flops_per_second)
        config, catalogue = config_of(**changes)
        config = with_devices(config, gpu_found=False)
        return estimate(config, catalogue, expand_runs(config))

    return say


def keep(seconds, **run):
    made = record("chainer", seconds=seconds, experiment="small", recipe="mnist-mlp-flux", **run)
    file = Path("results", place_of(made))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(made))
    return made


def test_without_records_networks_and_the_machine_decide(estimated):
    # 4 runs take 3 to 15 s each beside their epochs, there is a report, and no certificate of one trainer.
    assert estimated(frameworks=["chainer"]) == "about 27 s to 75 s on this machine, by the operations of the networks"
    low, high = (text.split() for text in estimated(1e5, frameworks=["chainer"])[6:].split(" on this")[0].split(" to "))
    assert "h" in low and "h" in high, "a machine that is ten million times slower"


def test_records_of_the_same_trainer_decide(estimated):
    made = keep(100.0, epochs=4)
    estimates = estimated(frameworks=["chainer"])
    assert estimates.endswith("on this machine, by 1 record in results")
    times = RunTimes()
    assert times.seconds({"recipe": "r", "dataset": "d", "trainer": "t", "epochs": 1}) is None
    busy = times.add(made)
    of_pace = made["result"]["training_seconds"] / 4
    run = {"recipe": "mnist-mlp-flux", "dataset": "digits", "trainer": "chainer-cpu", "epochs": "8"}
    assert times.seconds(run, least_alike=1) == pytest.approx(busy + 4 * of_pace)
    assert times.seconds(run | {"trainer": "keras-jax-cpu"}, least_alike=1) is None


def test_what_cannot_be_known_is_said(estimated):
    assert estimated(devices=["gpu"]).startswith(
        "no estimate before the first run of mnist-mlp-flux on digits by keras-jax on gpu"
    )


def test_runs_whose_time_is_unknown_are_counted_apart(estimated):
    text = estimated(devices=["cpu", "gpu"], frameworks=["chainer"])
    assert text.startswith("about 38 s to 2 min for 4 runs on this machine") and "; plus 4 of mnist-mlp-flux on" in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"repeats": 6}, ""),
        ({"repeats": 5}, "no verdict, which needs 6 repeats"),
        ({"frameworks": ["chainer"], "devices": ["cpu"]}, "no verdict on one trainer"),
    ],
)
def test_an_experiment_that_can_get_no_verdict(changes, why):
    assert why_no_verdict("small", config_of(**({"devices": ["cpu"]} | changes))[0]["experiments"]["small"]) == why
