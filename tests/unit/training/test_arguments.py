"""The arguments that runs and traces share: parsed and checked in the same way, and part of both code digests."""

import sys
from pathlib import Path

import pytest
import time_tuning
import trace_training
import train

from trainmark.trainer import Trainer

OWN = {
    train: ["--experiment", "e", "--dataset", "d", "--epochs", "2", "--repeat", "1"],
    trace_training: [],
    time_tuning: ["--experiment", "e", "--dataset", "d"],
}
"""Further required arguments of each script."""

SHARED = ["--trainer", "chainer-cpu", "--dataset-folder", "prepared", "--out", "out"]
SHARED += ["--settings", '{"seed": 1}', "--recipe", "imdb-cnn"]


@pytest.fixture
def parsed(monkeypatch):
    """A function that parses a script's required arguments and additional ones."""

    def parse(script, *more):
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *OWN[script], *SHARED, *more])
        return vars(script.parse_arguments())

    return parse


@pytest.mark.parametrize("script", OWN, ids=lambda script: script.__name__)
def test_defaults_and_values_from_the_command_line(parsed, script):
    shared = {"recipe": "imdb-cnn", "dataset_folder": Path("prepared"), "mean": None}
    shared |= {"trainer": Trainer("chainer", "cpu"), "settings": {"seed": 1}, "threads": 1, "log": None}
    assert parsed(script).items() >= (shared | {"out": Path("out")}).items()
    given = ["--recipe", "mnist-mlp-flux", "--mean", "mean.npy", "--threads", "4", "--log", "log"]
    given += ["--trainer", "chainer-gpu-tuned"]
    shared = {"recipe": "mnist-mlp-flux", "mean": Path("mean.npy"), "threads": 4, "log": Path("log")}
    shared |= {"trainer": Trainer("chainer", "gpu", "tuned")}
    assert parsed(script, *given).items() >= shared.items()


SETTINGS = "argument --settings: found {}; allowed: a JSON object such as"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--trainer", "keras-torch-cpu-tuned"], "the framework keras-torch has only the loop stock"),
        (["--trainer", "keras-cntk-cpu"], "found the framework keras-cntk; allowed: chainer, "),
        (["--trainer", "chainer"], "argument --trainer: found chainer; allowed: "),
        (["--trainer", "keras-tensorflow-cpu-w4"], "the framework keras-tensorflow has no engine for several workers"),
        (["--trainer", "torch-cpu-tuned-w4"], "several workers train only in the loop stock"),
        (["--recipe", "mnist-mlp-flux"], "--mean is needed: the recipe mnist-mlp-flux trains on images"),
        (["--settings", "seed"], SETTINGS.format("seed")),
        (["--settings", "[1]"], SETTINGS.format("[1]")),
    ],
)
def test_what_does_not_fit_together_or_is_no_json_is_refused(parsed, given, told, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(train, *given)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("train.py: error: ") and told in last
