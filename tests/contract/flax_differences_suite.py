"""Shows where Flax's layers and optax's rules differ from the graph's definitions; docs/frameworks.md lists them.

Run: pytest tests/contract/flax_differences_suite.py --framework flax. Where a newer Flax or optax no longer differs,
its test fails here, and the adapter's own part can go.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from trainmark.frameworks.flax_layers import LAYERS, BatchNorm
from trainmark.frameworks.flax_optimizers import create_rule
from trainmark.frameworks.registry import create_adapter
from trainmark.networks.ops import Node


@pytest.fixture(autouse=True)
def double_precision():
    jax.config.update("jax_enable_x64", True)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def layer(op, shape, **attributes):
    """Our layer for an input of this shape, channels first, in float64."""
    options = {"dtype": "float64", "param_dtype": "float64", "rngs": nnx.Rngs(0)}
    return LAYERS[op](Node("layer", op, ("input",), attributes), shape, options)


def updated(rule, gradients, dtype="float64", first=1.0, rates=None):
    """A weight after steps of a rule with these gradients. rates: in place of the learning rate, one for each step."""
    weight, state = jnp.full(1, first, dtype), None
    for i, gradient in enumerate(gradients):
        optimizer = rule(rates[i]) if rates else rule
        state = optimizer.init(weight) if state is None else state
        updates, state = optimizer.update(jnp.full(1, gradient, dtype), state, weight)
        weight = optax.apply_updates(weight, updates)
    return float(weight[0])


# --- batch normalisation --------------------------------------------------------------------------------------------


def test_batch_norm_defaults():
    theirs = nnx.BatchNorm(1, rngs=nnx.Rngs(0))
    assert (theirs.momentum, theirs.epsilon) == (0.99, 1e-5)


def test_batch_norm_running_variance_is_the_biased_one():
    x = array(8, 3)
    theirs = nnx.BatchNorm(3, momentum=0.9, epsilon=2e-5, param_dtype="float64", rngs=nnx.Rngs(0))
    ours = BatchNorm(3, 2e-5, 0.9, "float64")
    for norm in (theirs, ours):
        norm(x)
    np.testing.assert_allclose(theirs.var[...], 0.9 + 0.1 * x.var(axis=0), rtol=1e-6)
    np.testing.assert_allclose(ours.var[...], 0.9 + 0.1 * x.var(axis=0, ddof=1), rtol=1e-12)
    assert np.abs(theirs.var[...] - ours.var[...]).min() > 1e-3


# --- normalisation by the sample, activations and attention ---------------------------------------------------------


def test_layer_norm_has_another_epsilon_and_gelu_is_approximate():
    assert {nnx.LayerNorm(2, rngs=nnx.Rngs(0)).epsilon, nnx.GroupNorm(2, 1, rngs=nnx.Rngs(0)).epsilon} == {1e-6}
    x = array(4, 5)
    np.testing.assert_array_equal(nnx.gelu(x), layer("GELU", (5,), approximate=1)(x))
    assert np.abs(nnx.gelu(x) - layer("GELU", (5,))(x)).max() > 1e-5


def test_the_fast_variance_loses_digits():
    x = (array(4, 64) + 1000).astype(np.float32)
    exact = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    theirs, ours = nnx.LayerNorm(64, epsilon=1e-5, rngs=nnx.Rngs(0)), layer("LayerNorm", (64,))
    assert np.abs(theirs(x) - exact).max() > 0.01
    np.testing.assert_allclose(ours(x), exact, atol=1e-3)


def test_attention_takes_the_root_of_its_units_in_float32():
    inputs = [array(2, 4, 6, seed=seed) for seed in range(3)]
    query, key, value = inputs
    weights = np.exp(np.einsum("nqu,nku->nqk", query, key) / np.sqrt(6))
    expected = weights / weights.sum(2, keepdims=True) @ value
    theirs = nnx.dot_product_attention(*(jnp.asarray(x)[:, :, None] for x in inputs))[:, :, 0]
    node = Node("layer", "Attention", ("query", "key", "value"), {"heads": 1})
    ours = LAYERS["Attention"](node, (6, 4), {})(*inputs)
    assert np.abs(theirs - expected).max() > 1e-10
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_running_statistics_of_flax_are_float32():
    """Whatever the dtype of the weights."""
    theirs = nnx.BatchNorm(3, dtype="float64", param_dtype="float64", rngs=nnx.Rngs(0))
    assert {theirs.mean.dtype, theirs.var.dtype} == {np.dtype("float32")}
    ours = BatchNorm(3, 2e-5, 0.9, "float64")
    assert {ours.mean.dtype, ours.var.dtype} == {np.dtype("float64")}


# --- poolings and convolutions --------------------------------------------------------------------------------------


def test_pooling_omits_the_remainder():
    """Chainer's max_pooling_2d covers all: 6 rows have 3 windows of size 3 and stride 2, in Flax only 2."""
    x = array(1, 6, 6, 2)
    assert nnx.max_pool(x, (3, 3), (2, 2)).shape == (1, 2, 2, 2)
    ours = layer("MaxPool2D", (2, 6, 6), size=3, stride=2)(x)
    assert ours.shape == (1, 3, 3, 2)
    np.testing.assert_array_equal(ours[0, 2, 2], x[0, 4:, 4:].max(axis=(0, 1)))


def test_same_padding_of_a_stride_lies_on_the_far_side():
    """A window of size 3 and stride 2 on 6 rows: no padding before and one after, in the graph one and one."""
    x = array(1, 6, 6, 1)
    theirs = nnx.Conv(1, 1, (3, 3), 2, kernel_init=nnx.initializers.ones, rngs=nnx.Rngs(0))
    ours = layer("Conv2D", (1, 6, 6), filters=1, size=3, stride=2, padding=1)
    ours.kernel.set_value(jnp.ones((3, 3, 1, 1)))
    np.testing.assert_allclose(theirs(x)[0, 0, 0, 0], x[0, :3, :3].sum(), rtol=1e-6)
    np.testing.assert_allclose(ours(x)[0, 0, 0, 0], x[0, :2, :2].sum(), rtol=1e-12)


def test_flatten_takes_the_channels_last():
    x = np.arange(12.0).reshape(1, 2, 2, 3)
    assert list(jnp.reshape(x, (1, -1))[0, :3]) == [0, 1, 2], "three channels of the first pixel"
    assert list(layer("Flatten", (3, 2, 2))(x)[0, :3]) == [0, 3, 6]


# --- float32 --------------------------------------------------------------------------------------------------------


def test_products_of_float32_may_be_tensor_float_32():
    """Checks the settings only, for which no GPU is needed."""
    jax.config.update("jax_default_matmul_precision", None)
    assert nnx.Linear(1, 1, rngs=nnx.Rngs(0)).precision is None, "that of the setting"
    create_adapter("flax", threads=2)
    assert jax.config.jax_default_matmul_precision == "highest"
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"


def test_values_below_the_least_normal_one_are_zero_on_the_cpu():
    least = np.finfo(np.float32).smallest_normal
    assert np.float32(least / 2) > 0
    assert (jnp.full(8, least, np.float32) * np.float32(0.5)).tolist() == [0] * 8


# --- update rules ---------------------------------------------------------------------------------------------------


def test_adams_epsilon_is_beside_the_corrected_root_in_optax():
    """With gradient 1 and epsilon .1 the first step is 1 / 1.1; in Chainer's form 1 / (1 + .1 / sqrt(.001))."""
    constants = {"learning_rate": 1.0, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 0.1}
    ours = {
        rule: updated(create_rule(rule, stores_gradients=False, **constants), [1.0], first=0.0)
        for rule in ("adam", "adam_algorithm_1")
    }
    assert updated(optax.adam(1.0, eps=0.1), [1.0], first=0.0) == pytest.approx(-1 / 1.1, rel=1e-12)
    assert ours["adam_algorithm_1"] == pytest.approx(-1 / 1.1, rel=1e-12)
    assert ours["adam"] == pytest.approx(-1 / (1 + 0.1 / np.sqrt(0.001)), rel=1e-12)


def test_adams_corrections_lose_digits_in_float32():
    """The first step is the learning rate except for epsilon, whatever the gradient."""
    jax.config.update("jax_enable_x64", False)
    constants = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-30}
    ours = create_rule("adam", stores_gradients=False, **constants)
    theirs = optax.adam(1e-3, eps=1e-30)
    assert abs(updated(theirs, [1.0], "float32", first=0.0) / -1e-3 - 1) > 2e-6
    assert updated(ours, [1.0], "float32", first=0.0) == pytest.approx(-1e-3, rel=5e-7)


def test_rmsprop_has_epsilon_inside_the_root():
    """optax has both forms; this is its default."""
    ours = create_rule("rmsprop", stores_gradients=False, learning_rate=0.1, rho=0.75, epsilon=0.25)
    theirs = optax.rmsprop(0.1, 0.75, 0.25)
    assert updated(theirs, [2.0]) == pytest.approx(1 - 0.1 * 2 / np.sqrt(1 + 0.25), rel=1e-12)
    assert updated(ours, [2.0]) == pytest.approx(1 - 0.1 * 2 / (1 + 0.25), rel=1e-12)


def test_optax_multiplies_the_velocity_by_the_rate_of_the_step():
    """In the graph's rule the velocity has the rates of its own steps in it, so that a smaller rate acts later."""
    rates, gradients = [0.1, 0.05, 0.025], [0.3, -0.7, 0.2]
    velocity, wanted = 0.0, 1.0
    for rate, gradient in zip(rates, gradients, strict=True):
        velocity = 0.9 * velocity - rate * gradient
        wanted += velocity

    ours = create_rule("momentum_sgd", stores_gradients=False, learning_rate=0.1, momentum=0.9)
    weight = jnp.ones(1)
    state = ours.init(weight)
    for rate, gradient in zip(rates, gradients, strict=True):
        state[-1].hyperparams["learning_rate"] = rate
        updates, state = ours.update(jnp.full(1, gradient), state, weight)
        weight = optax.apply_updates(weight, updates)
    assert float(weight[0]) == pytest.approx(wanted, rel=1e-14)
    assert abs(updated(lambda rate: optax.sgd(rate, momentum=0.9), gradients, rates=rates) - wanted) > 1e-3
