"""Chainer's optimizers as adapters use them."""

from types import SimpleNamespace

import pytest

from trainmark.frameworks.chainer_layers import chainer
from trainmark.frameworks.chainer_optimizers import RMSpropWarmup, set_rates


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [
        (chainer.optimizers.Adam(), "alpha"),
        (chainer.optimizers.MomentumSGD(), "lr"),
        (RMSpropWarmup(learning_rate=0.1), "lr"),
    ],
)
def test_a_wrapped_optimizer_gets_the_rate_of_an_epoch(optimizer, name):
    """ChainerMN wraps the optimizer of several workers: the wrapper is of no class of Chainer's optimizers."""
    wrapper = SimpleNamespace(hyperparam=optimizer.hyperparam)
    set_rates(wrapper, (("learning_rate", 0.02),))
    assert getattr(optimizer.hyperparam, name) == 0.02
