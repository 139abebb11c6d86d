"""From a config to its runs: how many, in which order, under which ids."""

from itertools import pairwise, product

import pytest

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import Framework
from trainmark.plan import matrix
from trainmark.plan.matrix import certified_groups, expand_runs, trained_order, with_devices
from trainmark.plan.run import Run

EXPERIMENT = {
    "recipes": ["r1", "r2"], "datasets": ["d1"], "frameworks": ["f1", "f2", "f3"], "devices": ["cpu", "gpu"],
    "loops": ["stock"], "workers": [1], "epochs": [10, 40], "repeats": 2, "commands": {},
}  # fmt: skip


def config(**experiments) -> dict:
    return {"max_runs": 100, "experiments": {name: EXPERIMENT | changes for name, changes in experiments.items()}}


def test_every_combination_is_there_once_repeats_turn_slowest_and_frameworks_fastest():
    runs = expand_runs(config(e={}))
    assert [(run.repeat, run.epochs, run.recipe, run.trainer.device, run.trainer.framework) for run in runs] == [
        *product((1, 2), (10, 40), ("r1", "r2"), ("cpu", "gpu"), ("f1", "f2", "f3"))
    ]


def test_experiments_come_in_the_order_of_the_config_and_ids_are_unique():
    runs = expand_runs(config(z={}, a={"repeats": 1, "epochs": [5]}))
    assert [run.experiment for run in runs] == ["z"] * 48 + ["a"] * 12
    assert len({run.id for run in runs}) == len(runs)
    assert runs[0].id == "z/r1/d1/f1-cpu/epochs-10/repeat-1"


@pytest.mark.parametrize(
    ("devices", "gpu_found", "expected"),
    [
        ("auto", False, ["cpu"]),
        ("auto", True, ["cpu", "gpu"]),
        (["gpu"], False, ["gpu"]),
        (["gpu", "cpu"], True, ["gpu", "cpu"]),
    ],
)
def test_devices(devices, gpu_found, expected):
    """auto takes what is there; a device asked for by name stays, so that its absence is an error and no fall-back."""
    asked = config(e={"devices": devices})
    found = with_devices(asked, gpu_found)
    assert asked == config(e={"devices": devices}), "the config stays as it was given"
    assert found["experiments"]["e"]["devices"] == expected
    assert list(dict.fromkeys(run.trainer.device for run in expand_runs(found))) == expected


def test_runs_are_left_out_whose_network_has_layers_that_the_framework_lacks(monkeypatch):
    """f1 has all layers."""
    own = {"f1": Framework("f1", "m", [], {}), "f2": Framework("f2", "m", [], {}, layers=["Flatten", "Dense", "ReLU"])}
    monkeypatch.setattr(matrix, "known_frameworks", lambda: own)
    runs = expand_runs(config(e={"recipes": ["mnist-mlp-flux", "imdb-cnn"], "frameworks": [*own]}))
    left_out = matrix.without_layers(runs)
    assert {(run.recipe, run.trainer.framework) for run in runs if run.id in left_out} == {("imdb-cnn", "f2")}
    assert set(left_out.values()) == {
        "f2 has no layer BinaryLogits, Conv1D, Dropout, Embedding, GlobalMaxPool1D of imdb-cnn"
    }


# --- the order of training ----------------------------------------------------------------------------------------


def order(**experiments) -> list[Run]:
    settings = config(**{name: {"seed": 1} | changes for name, changes in experiments.items()})
    return trained_order(expand_runs(settings), settings)


def test_frameworks_devices_epochs_and_experiments_are_mixed_within_a_block():
    block = order(e={}, f={})[:48]
    for name in ("framework", "device", "epochs", "experiment"):
        values = [run.values[name] for run in block]
        changes = sum(a != b for a, b in pairwise(values))
        assert changes > 2 * len(set(values)), name


def test_the_order_is_that_of_the_seed_and_of_no_other_experiment():
    assert order(e={}) != order(e={"seed": 2})
    assert [run for run in order(e={}, f={}) if run.experiment == "e"] == order(e={})


def test_the_order_is_the_same_everywhere():
    """It is part of what is published: no generator of another library's version may change it."""
    runs = order(e={"recipes": ["r1"], "epochs": [10], "devices": ["cpu"]})
    assert [run.trainer.framework for run in runs] == ["f1", "f3", "f2", "f3", "f2", "f1"], "each block in its own way"


def test_groups_with_two_trainers_are_certified_each_trainer_once_in_the_order_of_the_config():
    runs = expand_runs(config(e={"frameworks": ["f2", "f1"], "recipes": ["r1"]}, f={}))
    found = certified_groups(runs)
    assert list(found) == [("e", "r1", "d1"), ("f", "r1", "d1"), ("f", "r2", "d1")]
    trainers = [(trainer.framework, trainer.device) for trainer in found["e", "r1", "d1"]]
    assert trainers == [("f2", "cpu"), ("f1", "cpu"), ("f2", "gpu"), ("f1", "gpu")]


@pytest.mark.parametrize("frameworks", [["f1"], ["f1", "f2"]])
def test_each_loop_has_runs_of_its_own_but_commands_are_always_stock(frameworks):
    commands = {"c": {"command": "true"}}
    both = config(e={"frameworks": frameworks, "loops": ["stock", "tuned"], "repeats": 1, "commands": commands})
    runs = expand_runs(both)
    assert {run.trainer.loop for run in runs if run.trainer.framework != "command"} == {"stock", "tuned"}
    assert {run.trainer.loop for run in runs if run.trainer.framework == "command"} == {"stock"}
    assert with_devices(both | {"max_runs": len(runs)}, gpu_found=True)
    with pytest.raises(ConfigError, match=f"{len(runs)} runs"):
        with_devices(both | {"max_runs": len(runs) - 1}, gpu_found=True)


def test_the_trainer_before_each_is_of_another_framework_if_there_is_one():
    """It is the one whose weights it evaluates."""
    both = config(e={"frameworks": ["f1", "f2"], "loops": ["stock", "tuned"]})
    for trainers in certified_groups(expand_runs(both)).values():
        assert len(trainers) == 2 * 2 * 2
        assert all(
            trainer[0] != before[0] for before, trainer in zip([trainers[-1], *trainers], trainers, strict=False)
        )


def test_more_runs_than_the_config_allows_are_refused():
    many = config(e={"repeats": 1}, many={"repeats": 10}) | {"max_runs": 100}
    with pytest.raises(ConfigError) as caught:
        with_devices(many, gpu_found=False)
    assert (
        str(caught.value) == "experiments: 264 runs, 240 of them in many; allowed: at most 100 (max_runs in the config)"
    )
    assert with_devices(many | {"max_runs": 264}, gpu_found=False)
