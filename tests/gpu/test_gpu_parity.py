"""Every network is the same on CPU and GPU and in every framework, in float64."""

import pytest
from gpu_runs import installed
from parity import certify_networks

from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]


@pytest.mark.parametrize("recipe", list(reversed(RECIPES)))  # the large ones first
def test_every_two_trainers_train_the_same_network(recipe, tmp_path, record_property):
    """On the CPU large networks are traced in one framework alone, which is compared with all on the GPU."""
    frameworks = installed()
    on_cpu = frameworks[:1] if RECIPES[recipe].certified_side else frameworks
    on_gpu = [(framework, "gpu", loop) for framework in frameworks for loop in known_frameworks()[framework].loops]
    trainers = [*on_gpu, *((framework, "cpu", "stock") for framework in on_cpu)]
    pairs, failures = certify_networks.pairs_of(recipe, trainers, tmp_path, at_once=3)
    print("\n".join(certify_networks.table_lines(recipe, pairs)))
    for pair, _ in pairs:
        drift = max(pair.drift.values()) if pair.drift else None
        record_property(f"{pair.first} and {pair.second}", f"{pair.sentence} (float32 epochs: {drift:.1e})")
    certify_networks.assert_certified(pairs)
    assert failures == [], "\n".join(failures)
