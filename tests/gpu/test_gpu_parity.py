"""Every network is the same on CPU and GPU and in every framework, in float64."""

import os

import pytest
from gpu_runs import installed
from gpu_stages import STAND_IN
from parity import certify_networks

from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.trainer import Trainer

pytestmark = pytest.mark.gpu

LARGE = {name for name, recipe in RECIPES.items() if len(certify_networks.architecture_of(recipe).nodes) > 100}


def trainers_of(recipe):
    """The trainers of a recipe on the GPU; on stand-ins without those that would take half an hour there."""
    for framework in installed():
        for loop in known_frameworks()[framework].loops:
            slow = loop == "tuned" or (recipe in LARGE and framework == "chainer")
            if not (STAND_IN in os.environ and RECIPES[recipe].certified_side and slow):
                yield Trainer(framework, "gpu", loop)


PAIRS = [
    pytest.param(recipe, trainer, id=f"{recipe}-{trainer}", marks=pytest.mark.timeout(450 if recipe in LARGE else 170))
    for recipe in sorted(RECIPES, key=lambda name: (name in LARGE, bool(RECIPES[name].certified_side)))
    for trainer in trainers_of(recipe)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the traces: that of the CPU is taken once for each recipe."""
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize(("recipe", "trainer"), PAIRS)
def test_it_trains_the_same_network_as_the_cpu(recipe, trainer, folder, record_property):
    """The trace on the CPU is that of the first framework. Two trainers that are the same as a third are the same."""
    on_cpu = Trainer(installed()[0], "cpu")
    pairs, failures = certify_networks.pairs_of(recipe, [on_cpu, trainer], folder)
    assert failures == [], "\n".join(failures)
    for pair, _ in pairs:
        epochs = [f"{one.what}: {one.difference:.1e}" for one in pair.epochs or ()]
        record_property(f"{pair.first} and {pair.second}", "; ".join([pair.sentence, *epochs]))
    certify_networks.assert_certified(recipe, pairs)
