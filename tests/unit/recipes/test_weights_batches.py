"""Initial weights and batch order: fixed by seed, repeat and epoch, and of the right distribution."""

import numpy as np
import pytest

from trainmark.networks.graph import chain
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.initializers import KERNEL_INITIALIZERS

NETWORK = chain(
    "net", (4, 5, 5), [("flatten", "Flatten", {}), ("a", "Dense", {"units": 30}), ("b", "Dense", {"units": 7})]
)
LARGE = chain("large", (900,), [("a", "Dense", {"units": 400})])


# --- weights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initializer", KERNEL_INITIALIZERS)
def test_weights_have_the_names_and_shapes_of_the_graph(initializer):
    weights = draw_initial_weights(NETWORK, initializer, (1, 1))
    assert {name: array.shape for name, array in weights.items()} == {
        "a.kernel": (100, 30), "a.bias": (30,), "b.kernel": (30, 7), "b.bias": (7,),
    }  # fmt: skip
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float64)}
    assert bool(weights["a.bias"].any()) == (initializer == "torch"), "it draws biases, as torch.nn does"
    assert np.count_nonzero(weights["a.kernel"]) == 3000


@pytest.mark.parametrize("initializer", KERNEL_INITIALIZERS)
def test_weights_are_fixed_by_seed_and_repeat(initializer):
    weights, again = (draw_initial_weights(NETWORK, initializer, (1, 1)) for _ in range(2))
    assert list(weights) == list(again) and all(np.array_equal(weights[name], again[name]) for name in weights)
    others = [draw_initial_weights(NETWORK, initializer, seed) for seed in ((1, 2), (2, 1), (0, 1))]
    drawn = np.concatenate([one[name].ravel() for one in [weights, *others] for name in ("a.kernel", "b.kernel")])
    assert len(np.unique(drawn)) == len(drawn)


def test_lecun_normal_moments():
    kernel = draw_initial_weights(LARGE, "lecun_normal", (3, 1))["a.kernel"]
    deviation = np.sqrt(1 / 900)
    assert abs(kernel.mean()) < 5 * deviation / np.sqrt(kernel.size)
    assert kernel.std() == pytest.approx(deviation, rel=0.01)
    assert (kernel**4).mean() == pytest.approx(3 * deviation**4, rel=0.03), "the fourth moment of a normal"
    assert np.abs(kernel).max() > 4 * deviation, "not truncated"


def test_resnets_dense_layer_is_initialized_like_chainers_linear():
    """Its convolutions are HeNormal; its last layer has Chainer's default, LeCunNormal."""
    recipe = RECIPES["imagenet-resnet50"]
    weights = draw_initial_weights(recipe.architecture((3, 64, 64), 1000), recipe.initializer, (1, 1))
    assert weights["fc.kernel"].std() == pytest.approx(np.sqrt(1 / 2048), rel=0.01)
    assert weights["res5a_conv2.kernel"].std() == pytest.approx(np.sqrt(2 / (9 * 512)), rel=0.01)


CONVOLUTION = chain(
    "convolution",
    (30, 8, 8),
    [("conv", "Conv2D", {"filters": 200, "size": 3}), ("bn", "BatchNorm", {}), ("words", "ReLU", {})],
)


def test_a_convolutions_fans_include_its_window():
    """Each of 200 filters takes 9 values of each of 30 channels."""
    kernel = draw_initial_weights(CONVOLUTION, "he_normal", (1, 1))["conv.kernel"]
    assert kernel.shape == (3, 3, 30, 200)
    assert kernel.std() == pytest.approx(np.sqrt(2 / 270), rel=0.01)
    assert kernel.mean() == pytest.approx(0, abs=4 * np.sqrt(2 / 270 / kernel.size))
    limit = np.sqrt(6 / (270 + 1800))
    uniform = draw_initial_weights(CONVOLUTION, "glorot_uniform", (1, 1))["conv.kernel"]
    assert 0.99 * limit < np.abs(uniform).max() <= limit


def test_embeddings_are_drawn_as_keras_draws_them():
    """Uniform in +-.05, whatever the initializer of the kernels."""
    words = chain("words", (5,), [("words", "Embedding", {"vocabulary": 400, "units": 30})])
    array = draw_initial_weights(words, "glorot_uniform", (1, 1))["words.embeddings"]
    assert array.shape == (400, 30)
    assert 0.0499 < np.abs(array).max() <= 0.05
    assert array.std() == pytest.approx(0.1 / np.sqrt(12), rel=0.02)


# --- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "batch_size", "sizes"), [(10, 4, [4, 4, 2]), (12, 4, [4, 4, 4]), (9, 8, [8, 1])])
def test_every_sample_is_used_once_per_epoch(samples, batch_size, sizes):
    feed = epoch_feed(samples, batch_size, (1, 1), 1)
    assert feed.order.dtype == np.int64
    assert sorted(feed.order) == list(range(samples))
    assert (feed.samples, feed.batch_size, feed.steps) == (samples, batch_size, len(sizes))
    assert feed.batch_sizes().tolist() == sizes


def test_the_order_is_shuffled_and_fixed_by_seed_repeat_and_epoch_and_not_by_the_batch_size():
    feed = epoch_feed(500, 10, (1, 1), 1)
    again = epoch_feed(500, 20, (1, 1), 1)
    assert np.array_equal(feed.order, again.order) and feed.dropout_seed == again.dropout_seed
    assert (feed.order != np.arange(500)).mean() > 0.9


@pytest.mark.parametrize(("seed", "epoch"), [((1, 1), 2), ((1, 2), 1), ((2, 1), 1)])
def test_order_and_dropout_differ_by_epoch_repeat_and_seed(seed, epoch):
    feed, other = epoch_feed(500, 10, (1, 1), 1), epoch_feed(500, 10, seed, epoch)
    assert (feed.order != other.order).mean() > 0.9
    assert feed.dropout_seed != other.dropout_seed


@pytest.mark.parametrize("batch_size", [None, 60, 61])
def test_a_full_batch_is_not_shuffled(batch_size):
    feed = epoch_feed(60, batch_size, (1, 1), 4)
    assert feed.order is None
    assert (feed.batch_size, feed.steps, feed.samples) == (60, 1, 60)
    assert feed.batch_sizes().tolist() == [60]
