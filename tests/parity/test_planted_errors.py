"""Each planted error makes a pair `different`, and is found at its layer: against another framework's trace."""

import subprocess
import sys
from pathlib import Path

import plants
import pytest
from harness import importing

from trainmark.frameworks.registry import known_frameworks
from trainmark.parity.certified_steps import EPOCH_STEPS
from trainmark.parity.compare import compare
from trainmark.parity.trace import read_trace

OTHER = {"chainer": "keras-tensorflow", "keras-tensorflow": "chainer", "keras-jax": "chainer"}
"""Whose trace without an error each framework's are compared with."""

pytestmark = pytest.mark.parity

STEPS = {"initial weights": 0, "update": 2, "evaluation": 3}
"""The step that an error of a kind is found at; 1 for others."""

WORDS = {"loss": "the loss", "input": "the input", "epoch": "an epoch of several batches"}
"""How the sentence names what is of no layer."""

CASES = [(framework, name) for framework in OTHER for name in plants.plants_of(framework)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A function that gives a framework's trace with an error, or without ("none")."""
    folder = tmp_path_factory.mktemp("traces")
    for framework in OTHER:
        assert not known_frameworks()[framework].missing_packages()
        command = [sys.executable, plants.__file__, "--framework", framework, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env=importing())
        assert done.returncode == 0, done.stderr[-3000:]
    return lambda framework, name: read_trace(Path(folder) / f"{framework}-{name}.npz")


@pytest.mark.parametrize("framework", OTHER)
def test_without_an_error_the_pair_is_equal_but_for_rounding(traces, framework):
    pair = compare(traces(OTHER[framework], "none"), traces(framework, "none"), plants.network())
    assert pair.parity == "rounding"
    assert pair.place is None


@pytest.mark.parametrize(("framework", "name"), CASES)
def test_a_planted_error_is_found_at_its_layer(traces, framework, name):
    pair = compare(traces(OTHER[framework], "none"), traces(framework, name), plants.network())
    layer, what = plants.expected(name)
    assert pair.parity == "different"
    assert (pair.place.layer, pair.place.what) == (layer, what), pair.sentence
    assert pair.place.step == (EPOCH_STEPS if (what == "epoch" and layer) else STEPS.get(what, 1))
    assert (layer or WORDS[what]) in pair.sentence
    print(f"{framework}, {name}: {pair.sentence}")
