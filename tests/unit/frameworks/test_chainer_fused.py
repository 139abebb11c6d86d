"""The compiled loops of Chainer's update rules."""

import numpy as np
import pytest

from trainmark.frameworks.chainer_fused import RULES, fuse_updates
from trainmark.frameworks.chainer_layers import chainer
from trainmark.frameworks.chainer_optimizers import OPTIMIZERS

CONSTANTS = {
    "adam": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8},
    "adam_algorithm_1": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-3},
    "rmsprop": {"rho": 0.9, "epsilon": 1e-8},
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_a_loop_computes_the_bits_of_chainers_rule(rule, dtype, transposed):
    """Over five steps, with zeros, gradients that overflow their squares, and gradients that are not contiguous."""
    trained = []
    for fused in (False, True):
        generator = np.random.default_rng(0)
        network = chainer.Link()
        with network.init_scope():
            network.weight = chainer.Parameter(generator.normal(size=(17, 61)).astype(dtype))
        optimizer = OPTIMIZERS[rule](learning_rate=0.01, **CONSTANTS[rule]).setup(network)
        if fused:
            fuse_updates(network, rule)
        with np.errstate(over="ignore"):
            for step in range(5):
                gradient = generator.normal(size=(61, 17)).astype(dtype)
                gradient[:, :2] = 0
                gradient[0, 3] = np.finfo(dtype).max / 2 if step == 3 else gradient[0, 3]
                network.weight.grad = gradient.T if transposed else np.ascontiguousarray(gradient.T)
                optimizer.update()
        trained.append([network.weight.array, *network.weight.update_rule.state.values()])
    for own, of_loop in zip(*trained, strict=True):
        np.testing.assert_array_equal(own, of_loop)
    assert np.isfinite(trained[0][0]).mean() > 0.99
