"""The arguments that runs and traces share: parsed and checked in the same way, and part of both code digests."""

import sys
from pathlib import Path

import pytest
import time_tuning
import trace_training
import train

from trainmark.errors import ConfigError
from trainmark.plan import code_digests
from trainmark.plan.dependencies import tracing_code, training_code
from trainmark.recipes.catalogue import RECIPES

OWN = {
    train: ["--experiment", "e", "--dataset", "d", "--epochs", "2", "--repeat", "1"],
    trace_training: [],
    time_tuning: ["--experiment", "e", "--dataset", "d"],
}
"""Further required arguments of each script."""

SHARED = [
    "--framework",
    "chainer",
    "--device",
    "cpu",
    "--dataset-folder",
    "prepared",
    "--out",
    "out",
    "--settings",
    '{"seed": 1}',
]

both = pytest.mark.parametrize("script", OWN, ids=lambda script: script.__name__)


@pytest.fixture
def parsed(monkeypatch):
    """A function that parses a script's required arguments and additional ones."""

    def parse(script, *more):
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *OWN[script], *SHARED, *more])
        return vars(script.parse_arguments())

    return parse


@both
def test_defaults(parsed, script):
    found = parsed(script, "--recipe", "imdb-cnn")
    shared = {"recipe": "imdb-cnn", "dataset_folder": Path("prepared"), "mean": None, "framework": "chainer"}
    shared |= {"device": "cpu", "loop": "stock", "settings": {"seed": 1}, "threads": 1, "log": None}
    assert found.items() >= (shared | {"out": Path("out")}).items()


@both
def test_values_from_the_command_line(parsed, script):
    given = ["--recipe", "mnist-mlp-flux", "--mean", "mean.npy", "--threads", "4", "--log", "log"]
    found = parsed(script, *given)
    shared = {"recipe": "mnist-mlp-flux", "mean": Path("mean.npy"), "threads": 4, "log": Path("log")}
    assert found.items() >= shared.items()


@both
def test_a_loop_that_the_framework_does_not_have_is_refused(parsed, script, capsys):
    assert parsed(script, "--recipe", "imdb-cnn", "--loop", "tuned")["loop"] == "tuned"
    with pytest.raises(SystemExit):
        parsed(script, "--recipe", "imdb-cnn", "--framework", "keras-torch", "--loop", "tuned")
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("error: --loop tuned: the framework keras-torch has only the loop stock")


@both
def test_images_without_their_mean_are_refused(parsed, script, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(script, "--recipe", "mnist-mlp-flux")
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"{script.__name__}.py: error: --mean is needed: the recipe mnist-mlp-flux trains on images"


@both
@pytest.mark.parametrize("text", ["", "seed", "[1]", "{"])
def test_settings_that_are_not_a_json_object_are_refused(parsed, script, text, capsys):
    with pytest.raises(SystemExit):
        parsed(script, "--recipe", "imdb-cnn", "--settings", text)
    assert f"argument --settings: found {text}; allowed: a JSON object" in capsys.readouterr().err


def test_a_setting_that_is_missing_is_named(parsed):
    settings = parsed(train, "--recipe", "imdb-cnn")["settings"]
    assert settings["seed"] == 1
    with pytest.raises(ConfigError, match="--settings lacks the key batch_size"):
        settings["batch_size"]


@pytest.mark.parametrize("code", [training_code, tracing_code])
def test_the_arguments_are_part_of_the_code_of_runs_and_traces(code):
    assert "trainmark.training.arguments" in code_digests.digests(*code(RECIPES["imdb-cnn"], "chainer"))
