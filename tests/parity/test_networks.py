"""Every network is the same in every installed framework: equal up to rounding, in float64."""

import certify_networks
import pytest

from trainmark.recipes.catalogue import RECIPES

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]

COMPUTES_IN_FLOAT32 = "keras-torch"
"""This framework multiplies float64 matrices in float32 (docs/frameworks.md)."""


@pytest.mark.parametrize("recipe", list(reversed(RECIPES)))  # the large ones first
def test_every_two_frameworks_train_the_same_network(recipe, tmp_path):
    pairs = certify_networks.pairs_of(recipe, certify_networks.installed(), tmp_path)
    assert len(pairs) >= 3
    print("\n".join(certify_networks.table_lines(recipe, pairs)))
    for pair in pairs:
        allowed = ("bitwise", "rounding")
        if COMPUTES_IN_FLOAT32 in f"{pair.first} {pair.second}":
            allowed = (*allowed, "single")
        assert pair.parity in allowed, pair.sentence
        assert pair.stages["network"]["steps"] == 10
        assert max(stage["updates"] for stage in pair.stages.values()) < 1e-9
