"""Every network is the same in every installed framework and loop: equal up to rounding, in float64."""

import certify_networks
import pytest

from trainmark.recipes.catalogue import RECIPES

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("recipe", list(reversed(RECIPES)))  # the large ones first
def test_every_two_frameworks_train_the_same_network(recipe, tmp_path):
    pairs, failures = certify_networks.pairs_of(recipe, certify_networks.installed(), tmp_path)
    assert failures == []
    assert len(pairs) >= 15
    print("\n".join(certify_networks.table_lines(recipe, pairs)))
    certify_networks.assert_certified(recipe, pairs)
