"""Each injected fault makes a pair `different` and is found at its layer, compared with another framework's trace."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import injected_faults
import pytest
from harness import FRAMEWORKS, importing

from trainmark.frameworks.registry import known_frameworks
from trainmark.parity.certified_steps import EPOCH_STEPS
from trainmark.parity.compare import compare
from trainmark.parity.trace import read_trace

OTHER = {framework: "chainer" for framework in FRAMEWORKS}
OTHER["chainer"] = "keras-tensorflow" if "keras-tensorflow" in FRAMEWORKS else "keras-jax"
"""For each framework, the one whose trace without a fault it is compared with."""

pytestmark = [pytest.mark.parity, pytest.mark.adversary]

STEPS = {"initial weights": 0, "update": 2, "evaluation": 3}
"""Step at which a fault of a kind is found; 1 for others."""

WORDS = {"loss": "the loss", "input": "the input", "epoch": "an epoch of several batches"}
"""How the sentence names locations that belong to no layer."""

CASES = [(framework, name) for framework in OTHER for name in injected_faults.NAMES]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A function that returns a framework's trace with a fault, or of a network without one; taken at first use."""
    folder = tmp_path_factory.mktemp("traces")

    @cache
    def taken(framework):
        assert not known_frameworks()[framework].missing_packages()
        command = [sys.executable, injected_faults.__file__, "--framework", framework, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env=importing())
        assert done.returncode == 0, done.stderr[-3000:]

    def traced(framework, name):
        taken(framework)
        return read_trace(Path(folder) / f"{framework}-{name}.npz")

    return traced


@pytest.mark.parametrize("name", injected_faults.NETWORKS)
@pytest.mark.parametrize("framework", OTHER)
def test_without_a_fault_the_pair_is_equal_up_to_rounding(traces, framework, name):
    pair = compare(traces(OTHER[framework], name), traces(framework, name), injected_faults.network(name))
    assert pair.parity == "rounding"
    assert pair.location is None


@pytest.mark.parametrize(("framework", "name"), CASES)
def test_an_injected_fault_is_found_at_its_layer(traces, framework, name):
    network = injected_faults.network(name)
    pair = compare(traces(OTHER[framework], network.name), traces(framework, name), network)
    layer, what = injected_faults.expected(name)
    assert pair.parity == "different"
    assert (pair.location.layer, pair.location.what) == (layer, what), pair.sentence
    assert pair.location.step == (EPOCH_STEPS if (what == "epoch" and layer) else STEPS.get(what, 1))
    assert (layer or WORDS[what]) in pair.sentence
    print(f"{framework}, {name}: {pair.sentence}")
