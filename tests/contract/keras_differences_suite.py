"""Shows where Keras's own layers and optimizers differ from the graph's definitions; docs/frameworks.md lists them.

Run for one framework: pytest tests/contract/keras_differences_suite.py --framework keras-jax. Where a newer Keras no
longer differs, its test fails here, and the adapter's own part can go.
"""

import importlib
import os
from math import erf
from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops

from trainmark.frameworks.keras_adapter import BACKENDS
from trainmark.frameworks.keras_layers import LAYERS, BatchNorm, Pool2D
from trainmark.frameworks.keras_losses import StepLosses
from trainmark.frameworks.keras_optimizers import OPTIMIZERS
from trainmark.frameworks.registry import create_adapter
from trainmark.networks.ops import Node
from trainmark.recipes.batch_order import EpochFeed

BACKEND = keras.backend.backend()


@pytest.fixture(autouse=True)
def double_precision():
    if BACKEND == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def layer(op, rank, **attributes):
    """A layer of ours, whose inputs have so many axes beside that of the samples."""
    inputs = ("query", "key", "value") if op == "Attention" else ("input",)
    return LAYERS[op](Node("layer", op, inputs, attributes), rank)


def error_of(found, expected):
    return np.abs(numpy(found) - expected).max()


def numpy(value):
    return np.asarray(ops.convert_to_numpy(value))


def updated(optimizer, gradients, dtype="float64", first=1.0):
    """A weight after steps of an optimizer with these gradients."""
    variable = keras.Variable(np.full(1, first), dtype=dtype)
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply([ops.convert_to_tensor(np.full(1, gradient), dtype=dtype)], [variable])
    return float(numpy(variable)[0])


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(BACKEND != "tensorflow", reason="on TensorFlow alone")
@pytest.mark.parametrize("order", [None, np.array([3, 0, 2, 4, 1])])
def test_tensorflow_tunes_no_dataset_of_ours_whose_epochs_would_wait_for_its_thread(order):
    import tensorflow as tf

    inputs, labels, backend = array(5, 2), np.arange(5), BACKENDS["tensorflow"]
    feed = EpochFeed(order, 2, 5, 1)
    batches = backend.batches(tf, inputs, labels)(feed)
    stream = backend.stream(tf, feed.batches(inputs, labels.astype(np.int32)), (2,), "float64")
    for dataset in (batches, stream):
        assert dataset.options().autotune.enabled is False
        found = list(dataset.as_numpy_iterator())
        assert len(found) == 3
        for batch, expected in zip(found, feed.batches(inputs, labels), strict=True):
            for values, due in zip(batch, expected, strict=True):
                np.testing.assert_array_equal(values, due)


# --- batch normalisation --------------------------------------------------------------------------------------------


def test_batch_norm_defaults():
    layer = keras.layers.BatchNormalization()
    assert (layer.momentum, layer.epsilon) == (0.99, 1e-3)


def test_batch_norm_running_variance_is_the_biased_one():
    x = array(8, 3)
    theirs, ours = keras.layers.BatchNormalization(momentum=0.9, epsilon=2e-5), BatchNorm(2e-5, 0.9)
    for layer in (theirs, ours):
        layer(x, training=True)
    np.testing.assert_allclose(numpy(theirs.moving_variance), 0.9 + 0.1 * x.var(axis=0), rtol=1e-6)
    np.testing.assert_allclose(numpy(ours.moving_variance), 0.9 + 0.1 * x.var(axis=0, ddof=1), rtol=1e-12)
    assert np.abs(numpy(theirs.moving_variance) - numpy(ours.moving_variance)).min() > 1e-3


@pytest.mark.skipif(BACKEND != "jax", reason="on JAX alone")
def test_batch_norm_is_partly_float32_on_jax():
    x = array(8, 3) + 5
    wanted = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 2e-5)
    theirs = numpy(keras.layers.BatchNormalization(epsilon=2e-5)(x, training=True))
    ours = numpy(BatchNorm(2e-5, 0.9)(x, training=True))
    assert np.abs(theirs - wanted).max() > 1e-9
    assert np.abs(ours - wanted).max() < 1e-12


@pytest.mark.skipif(BACKEND != "jax", reason="on JAX alone")
def test_mean_is_float32_on_jax():
    x = array(1000)
    assert abs(float(numpy(ops.mean(x))) - x.mean()) > 1e-11
    assert abs(float(numpy(ops.sum(x))) / 1000 - x.mean()) < 1e-15


# --- normalisation by the sample, activations and attention ---------------------------------------------------------


def test_layer_norm_has_another_epsilon():
    assert {keras.layers.LayerNormalization().epsilon, keras.layers.GroupNormalization(2).epsilon} == {1e-3}


@pytest.mark.parametrize("op", ["LayerNorm", "GroupNorm"])
def test_normalisations_are_float32_on_jax_and_torch(op):
    x, groups = array(4, 5, 6), {"GroupNorm": 2}.get(op)
    parts = x.reshape(4, 5, groups, -1) if groups else x
    axes = (1, 3) if groups else 2
    mean, variance = parts.mean(axes, keepdims=True), parts.var(axes, keepdims=True)
    expected = ((parts - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    theirs = (
        keras.layers.GroupNormalization(2, epsilon=1e-5) if groups else keras.layers.LayerNormalization(epsilon=1e-5)
    )
    assert error_of(layer(op, 2, **({"groups": groups} if groups else {}))(x), expected) < 1e-13
    assert (error_of(theirs(x), expected) < 1e-13) == (BACKEND == "tensorflow")


def test_tanh_of_float64_is_float32_on_jax():
    x = array(4, 5)
    assert (error_of(ops.tanh(x), np.tanh(x)) < 1e-13) == (BACKEND != "jax")
    assert error_of(layer("Tanh", 1)(x), np.tanh(x)) < 1e-13


def test_gelu_has_constants_of_float32_on_tensorflow():
    x = array(4, 5)
    expected = 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))
    assert (error_of(ops.gelu(x, approximate=False), expected) < 1e-13) == (BACKEND != "tensorflow")
    assert error_of(layer("GELU", 1)(x), expected) < 1e-13


def test_attention_has_a_scale_of_float32_or_none():
    query, key, value = (array(2, 4, 6, seed=seed) for seed in range(3))
    scores = np.einsum("nqu,nku->nqk", query, key)
    weights = [np.exp(factor * scores) for factor in (1, 6**-0.5)]
    unscaled, expected = (each / each.sum(2, keepdims=True) @ value for each in weights)
    assert error_of(keras.layers.Attention()([query, value, key]), unscaled) < 1e-5
    in_heads = (ops.convert_to_tensor(x[:, :, None]) for x in (query, key, value))
    assert 1e-13 < error_of(ops.dot_product_attention(*in_heads)[:, :, 0], expected) < 1e-5
    assert error_of(layer("Attention", 2, heads=1)([query, key, value]), expected) < 1e-13


def test_pooling_omits_the_remainder():
    """Chainer's max_pooling_2d covers all: 6 rows have 3 windows of size 3 and stride 2, in Keras only 2."""
    x = array(1, 6, 6, 2)
    assert keras.layers.MaxPooling2D(3, 2)(x).shape == (1, 2, 2, 2)
    ours = numpy(Pool2D(ops.max_pool, 3, 2, 0, ceil=True)(x))
    assert ours.shape == (1, 3, 3, 2)
    np.testing.assert_array_equal(ours[0, 2, 2], x[0, 4:, 4:].max(axis=(0, 1)))


def test_average_pooling_leaves_its_padding_out():
    x = np.ones((1, 4, 4, 1))
    theirs = numpy(keras.layers.AveragePooling2D(3, 1, padding="same")(x))
    ours = numpy(Pool2D(ops.average_pool, 3, 1, 1, ceil=False)(x))
    assert theirs[0, 0, 0, 0] == pytest.approx(1)
    assert ours[0, 0, 0, 0] == pytest.approx(4 / 9), "five of nine are padding, and count as zeros"


def test_same_padding_of_a_stride_lies_on_the_far_side():
    """A window of size 3 and stride 2 on 6 rows: no padding before and one after, in the graph one and one."""
    x = array(1, 6, 6, 1)
    kernel = np.ones((3, 3, 1, 1))
    same = numpy(ops.conv(x, kernel, strides=2, padding="same", data_format="channels_last"))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    ours = numpy(ops.conv(padded, kernel, strides=2, padding="valid", data_format="channels_last"))
    np.testing.assert_allclose(same[0, 0, 0, 0], x[0, :3, :3].sum(), rtol=1e-12)
    np.testing.assert_allclose(ours[0, 0, 0, 0], x[0, :2, :2].sum(), rtol=1e-12)


def test_flatten_takes_the_channels_last():
    x = np.arange(12.0).reshape(1, 2, 2, 3)
    assert list(numpy(keras.layers.Flatten()(x))[0, :3]) == [0, 1, 2], "three channels of the first pixel"


# --- float32 --------------------------------------------------------------------------------------------------------

TF32 = {
    "tensorflow": lambda tf: tf.config.experimental.tensor_float_32_execution_enabled(),
    "jax": lambda jax: jax.config.jax_default_matmul_precision != "highest",
    "torch": lambda torch: torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
}
"""Whether a backend may use TensorFloat-32, with 10 bits instead of 23, for products of float32 on NVIDIA's GPUs."""


def test_products_of_float32_may_be_tensor_float_32(request):
    """Checks the settings only, for which no GPU is needed."""
    module = importlib.import_module(BACKEND)
    assert TF32[BACKEND](module)
    # Threads are not changed: TensorFlow does not allow it after it has computed.
    threads_stay = BACKENDS[BACKEND]._replace(limit_threads=lambda *_: None)
    with mock.patch.dict(BACKENDS, {BACKEND: threads_stay}):
        create_adapter(request.config.getoption("--framework"), threads=2)
    assert not TF32[BACKEND](module)
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"


# --- integers -------------------------------------------------------------------------------------------------------


def test_counters_have_the_width_of_keras_own():
    """TensorFlow keeps int32 variables on the CPU, where a step that is compiled for the GPU can't use them."""
    counts = {variable.dtype for variable in StepLosses(3, ()).variables} - {"float64"}
    assert counts == {keras.optimizers.SGD().iterations.dtype}
    assert counts == {"int64" if BACKEND == "tensorflow" else "int32"}


# --- update rules ---------------------------------------------------------------------------------------------------


def test_adams_default_epsilon():
    assert keras.optimizers.Adam().epsilon == 1e-7


def test_adams_epsilon_is_beside_the_uncorrected_root():
    """With gradient 1 and epsilon .1 the first step is 1 / (1 + .1 / sqrt(.001)); in the other form 1 / 1.1."""
    constants = {"learning_rate": 1.0, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 0.1}
    uncorrected = -1 / (1 + 0.1 / np.sqrt(0.001))
    assert updated(keras.optimizers.Adam(**constants), [1.0], first=0.0) == pytest.approx(uncorrected, rel=1e-5)
    assert updated(OPTIMIZERS["adam"](**constants), [1.0], first=0.0) == pytest.approx(uncorrected, rel=1e-12)
    assert updated(OPTIMIZERS["adam_algorithm_1"](**constants), [1.0], first=0.0) == pytest.approx(-1 / 1.1, rel=1e-12)


def test_adams_corrections_lose_digits_in_float32():
    """The first step is the learning rate except for epsilon, whatever the gradient."""
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    constants = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-30}
    theirs = updated(keras.optimizers.Adam(**constants), [1.0], "float32", first=0.0)
    ours = updated(OPTIMIZERS["adam"](**constants), [1.0], "float32", first=0.0)
    assert abs(theirs / -1e-3 - 1) > 2e-6
    assert ours == pytest.approx(-1e-3, rel=5e-7)


def test_rmsprop_has_epsilon_inside_the_root():
    constants = {"learning_rate": 0.1, "rho": 0.75, "epsilon": 0.25}
    theirs = updated(keras.optimizers.RMSprop(**constants), [2.0])
    ours = updated(OPTIMIZERS["rmsprop"](**constants), [2.0])
    assert theirs == pytest.approx(1 - 0.1 * 2 / np.sqrt(1 + 0.25), rel=1e-6)
    assert ours == pytest.approx(1 - 0.1 * 2 / (1 + 0.25), rel=1e-12)


def test_momentum_is_exact_in_ours():
    constants = {"learning_rate": 0.1, "momentum": 0.9}
    gradients = [0.3, -0.7, 0.2, 0.9]
    velocity, wanted = 0.0, 1.0
    for gradient in gradients:
        velocity = 0.9 * velocity - 0.1 * gradient
        wanted += velocity
    assert updated(OPTIMIZERS["momentum_sgd"](**constants), gradients) == pytest.approx(wanted, rel=1e-14)
    theirs = abs(updated(keras.optimizers.SGD(**constants), gradients) - wanted)
    assert (theirs > 1e-12) == (BACKEND == "tensorflow"), theirs


@pytest.mark.skipif(BACKEND != "tensorflow", reason="on TensorFlow alone")
def test_gradients_of_embeddings_are_squared_row_by_row():
    """A word that occurs twice has two rows of gradient 1: Keras's Adam uses 1 + 1 as its square, ours 4."""
    import tensorflow as tf

    found = {}
    for name, optimizer in (("theirs", keras.optimizers.Adam), ("ours", OPTIMIZERS["adam"])):
        variable = keras.Variable(np.zeros((3, 1)))
        rule = optimizer(learning_rate=1.0, beta_1=0.5, beta_2=0.5, epsilon=1e-30)
        rule.build([variable])
        rows = tf.IndexedSlices(tf.ones((2, 1), tf.float64), tf.constant([1, 1]), tf.constant([3, 1]))
        rule.apply([rows], [variable])
        found[name] = numpy(variable)[:, 0]
    np.testing.assert_allclose(found["ours"], [0, -1, 0], rtol=1e-12)
    assert found["theirs"][1] == pytest.approx(-np.sqrt(2), rel=1e-6)


# --- NaN and losses -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(BACKEND != "tensorflow", reason="on TensorFlow alone")
def test_relu_after_dense_may_make_zero_of_nan():
    """TensorFlow fuses product, bias and ReLU into one operation, which does this on some CPUs; a ReLU keeps the NaN.

    A training whose inputs overflow may so go on with a finite loss, where the others have NaN.
    """
    import tensorflow as tf

    keras.config.set_dtype_policy("float32")
    dense, relu = keras.layers.Dense(16), keras.layers.ReLU()
    x = np.full((4, 8), np.nan, np.float32)
    together = tf.function(lambda x: relu(dense(x)))
    assert np.isnan(numpy(relu(dense(x)))).all()
    fused = numpy(together(x))
    assert (fused == 0).all() or np.isnan(fused).all()


@pytest.mark.skipif(BACKEND == "torch", reason="on TensorFlow and JAX alone: torch computes with them")
def test_values_below_the_least_normal_one_are_zero_on_the_cpu():
    least = np.finfo(np.float32).smallest_normal
    assert np.float32(least / 2) > 0
    with keras.device("cpu"):
        assert numpy(ops.convert_to_tensor(np.full(8, least, np.float32)) * np.float32(0.5)).tolist() == [0] * 8


def test_losses_that_fit_reports_are_running_means():
    """They are means of the epoch so far, not of the batch."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    losses = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    inputs = np.array([[1.0], [2.0]])
    model.fit(inputs, np.zeros((2, 1)), batch_size=1, shuffle=False, verbose=0, callbacks=[note])
    np.testing.assert_allclose(losses, [1.0, (1.0 + 4.0) / 2])
