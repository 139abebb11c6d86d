"""Shows where Chainer differs from other frameworks; docs/frameworks.md lists it, with Keras's differences."""

import importlib
import inspect

import numpy as np
import pytest

from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.networks.ops import OPS

create_adapter("chainer", threads=2)  # before chainer: it needs the compatibility module
chainer = pytest.importorskip("chainer")
F, L = chainer.functions, chainer.links
OPTIMIZERS = importlib.import_module("trainmark.frameworks.chainer_optimizers").OPTIMIZERS


def array(*shape):
    return np.random.default_rng(0).normal(size=shape)


def defaults_of(function):
    """Default values of a function's arguments, by name."""
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def test_the_graphs_defaults_are_chainers():
    norm = defaults_of(L.BatchNormalization.__init__)
    ours = {op: {name: one.default for name, one in OPS[op].attributes.items()} for op in OPS}
    assert ours["BatchNorm"] == {"epsilon": norm["eps"], "decay": norm["decay"]}
    assert ours["LRN"] == {name: defaults_of(F.local_response_normalization)[name] for name in ours["LRN"]}
    assert defaults_of(F.max_pooling_2d)["cover_all"] is True
    assert chainer.optimizers.Adam().hyperparam.eps == 1e-8


def test_tensor_float_32_is_disabled_in_nvidias_libraries():
    """In every framework, also in Chainer, whose CuPy uses it only if CUPY_TF32 is set."""
    for framework in known_frameworks().values():
        assert dict(framework.environment)["NVIDIA_TF32_OVERRIDE"] == "0"


def test_chainers_adam_has_epsilon_beside_the_uncorrected_root():
    """With gradient 1 and epsilon .1 the first step is 1 / (1 + .1 / sqrt(.001)); in the other form 1 / 1.1."""
    found = {}
    for rule in ("adam", "adam_algorithm_1"):
        link = L.Scale(W_shape=(1,))
        link.W.array = np.zeros(1)
        constants = {"learning_rate": 1.0, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 0.1}
        optimizer = OPTIMIZERS[rule](**constants).setup(link)
        link.W.grad = np.ones(1)
        optimizer.update()
        found[rule] = float(link.W.array[0])
    assert found["adam"] == pytest.approx(-1 / (1 + 0.1 / np.sqrt(0.001)), rel=1e-12)
    assert found["adam_algorithm_1"] == pytest.approx(-1 / 1.1, rel=1e-12)


def test_batch_norm_keeps_the_unbiased_variance():
    x = array(8, 3)
    with chainer.using_config("dtype", np.float64):
        link = L.BatchNormalization(3)
    with chainer.using_config("train", True):
        link(x)
    np.testing.assert_allclose(link.avg_var, 0.9 + 0.1 * x.var(axis=0, ddof=1), rtol=1e-12)


def test_layer_normalisation_takes_vectors_alone():
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    with pytest.raises(chainer.utils.type_check.InvalidType):
        chainer.links.LayerNormalization(3)(x)
    chainer.links.LayerNormalization(3)(x[:, :, 0])


def test_an_even_window_of_lrn_is_the_next_odd_one():
    """n 4 and n 5 are the same, so a graph may not have an even n."""
    x = array(2, 9, 3, 3)
    four, five = (F.local_response_normalization(x, n=n).array for n in (4, 5))
    np.testing.assert_array_equal(four, five)
    assert np.abs(F.local_response_normalization(x, n=3).array - five).max() > 1e-6


def test_max_gives_every_equal_value_the_whole_gradient():
    """A max pooling passes it to one of them, so the adapter uses that for GlobalMaxPool1D."""
    x = chainer.Variable(np.ones((1, 1, 4)))
    F.sum(F.max(x, axis=2)).backward()
    assert x.grad.sum() == 4
    x.cleargrad()
    F.sum(F.max_pooling_1d(x, 4)).backward()
    assert x.grad.sum() == 1


def test_average_pooling_counts_its_padding():
    found = F.average_pooling_2d(np.ones((1, 1, 4, 4)), 3, 1, 1).array
    assert found[0, 0, 0, 0] == pytest.approx(4 / 9)


def test_dense_layers_store_the_transposed_kernel():
    assert L.Linear(3, 5).W.shape == (5, 3)
    assert L.Convolution2D(3, 5, (7, 9)).W.shape == (5, 3, 7, 9)
