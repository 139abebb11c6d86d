"""Every network is the same in every installed framework and loop: equal up to rounding, in float64."""

import certify_networks
import pytest
from contract.networks import NETWORKS

from trainmark.importing.writing import network_file
from trainmark.recipes.catalogue import RECIPES

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]


def certify(recipe, folder, *networks):
    pairs, failures = certify_networks.pairs_of(recipe, certify_networks.installed(), folder, networks)
    assert failures == []
    assert len(pairs) >= 15
    print("\n".join(certify_networks.table_lines(recipe, pairs)))
    certify_networks.assert_certified(recipe, pairs)


@pytest.mark.parametrize("recipe", list(reversed(RECIPES)))  # the large ones first
def test_every_two_frameworks_train_the_same_network(recipe, tmp_path):
    certify(recipe, tmp_path)


@pytest.mark.parametrize("name", ["attention", "convnext_tiny", "mobilenet_v2", "vit_b_16"])
def test_every_two_frameworks_train_the_same_network_of_ones_own(name, tmp_path):
    """One of all newer layers, and imported ones."""
    file = tmp_path / "own.py"
    file.write_text(network_file(NETWORKS[name] if name in NETWORKS else imported(name), name.replace("_", "-")))
    certify(name.replace("_", "-"), tmp_path, str(file))


def imported(name):
    torch = pytest.importorskip("torch")
    from imported.imported_models import MODELS

    from trainmark.importing.network import SAMPLES, Builder, traced

    shape = MODELS[name].small_input
    program = traced(MODELS[name].make(**MODELS[name].small), torch.randn(SAMPLES, *shape))
    return Builder(program, shape).build(name.replace("_", "-")).architecture
