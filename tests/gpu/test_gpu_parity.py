"""Every network is the same on CPU and GPU and in every framework, in float64."""

import os

import pytest
from gpu_parts import STAND_IN
from gpu_runs import QUICKLY_COMPILED, installed
from parity import certify_networks

from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.trainer import Trainer

pytestmark = pytest.mark.gpu

LARGE = {name for name, recipe in RECIPES.items() if len(certify_networks.architecture_of(recipe).nodes) > 100}


def recipes():
    """Each recipe with its time limit, those that take longest first."""
    for name in sorted(RECIPES, key=lambda name: (name not in LARGE, not RECIPES[name].certified_side, "mlp" in name)):
        size, seconds = ("large", 450) if name in LARGE else ("small", 300 if RECIPES[name].certified_side else 170)
        yield pytest.param(name, id=f"{size}-{name}", marks=pytest.mark.timeout(seconds))


@pytest.mark.parametrize("recipe", list(recipes()))
def test_every_two_trainers_train_the_same_network(recipe, tmp_path, monkeypatch, record_property):
    """On the CPU ImageNet's networks are traced in one framework alone, which is compared with all on the GPU."""
    if RECIPES[recipe].certified_side:
        monkeypatch.setenv("XLA_FLAGS", QUICKLY_COMPILED)
    frameworks = installed()
    on_cpu = frameworks[:1] if RECIPES[recipe].certified_side else frameworks
    on_gpu = [
        Trainer(framework, "gpu", loop) for framework in frameworks for loop in known_frameworks()[framework].loops
    ]
    if RECIPES[recipe].certified_side and STAND_IN in os.environ:  # the others would take half an hour there
        slow = {"chainer"} if recipe in LARGE else set()
        on_gpu = [trainer for trainer in on_gpu if trainer.loop == "stock" and trainer.framework not in slow]
    trainers = [*(Trainer(framework, "cpu") for framework in on_cpu), *on_gpu]  # the CPU takes longest
    pairs, failures = certify_networks.pairs_of(recipe, trainers, tmp_path)
    print("\n".join(certify_networks.table_lines(recipe, pairs)))
    for pair, _ in pairs:
        drift = f" (float32 epochs: {max(pair.drift.values()):.1e})" if pair.drift else ""
        record_property(f"{pair.first} and {pair.second}", f"{pair.sentence}{drift}")
    certify_networks.assert_certified(recipe, pairs)
    assert failures == [], "\n".join(failures)
