"""The example of Flax's documentation, with the network of a recipe. `loops.py` runs beside it.

Source: "MNIST tutorial" of Flax NNX: a module of layers, nnx.Optimizer with a rule of optax, nnx.MultiMetric with the
accuracy and the mean of the loss, and a step by nnx.jit for each batch of arrays on the host. The example reads its
batches with TensorFlow's datasets; here numpy takes them in a new order. ResNet-50, which Flax has not, is that of its
ImageNet example: nnx.Conv without bias, nnx.BatchNorm, nnx.max_pool.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Sequence(nnx.Module):
    """Layers and functions one after the other."""

    def __init__(self, *layers: Callable) -> None:
        self.layers = nnx.List(layers)

    def __call__(self, x):
        """Return the logits."""
        for layer in self.layers:
            x = layer(x)
        return x


class Block(nnx.Module):
    """The bottleneck of ResNet-50: three convolutions, and a shortcut."""

    def __init__(self, channels: int, filters: int, stride: int, rngs: nnx.Rngs) -> None:
        self.convolutions = Sequence(
            *_convolution(channels, filters, 1, 1, rngs), nnx.relu, *_convolution(filters, filters, 3, stride, rngs),
            nnx.relu, *_convolution(filters, 4 * filters, 1, 1, rngs),
        )  # fmt: skip
        self.shortcut = Sequence(
            *(_convolution(channels, 4 * filters, 1, stride, rngs) if channels != 4 * filters else ())
        )

    def __call__(self, x):
        """Return the sum of both ways."""
        return nnx.relu(self.convolutions(x) + self.shortcut(x))


def _convolution(channels: int, filters: int, size: int, stride: int, rngs: nnx.Rngs) -> tuple:
    convolution = nnx.Conv(channels, filters, (size, size), (stride, stride), use_bias=False, rngs=rngs)
    return convolution, nnx.BatchNorm(filters, momentum=0.9, epsilon=1e-5, rngs=rngs)


def _resnet50(rngs: nnx.Rngs) -> Sequence:
    layers = [*_convolution(3, 64, 7, 2, rngs), nnx.relu, partial(nnx.max_pool, window_shape=(3, 3), strides=(2, 2),
                                                                 padding="SAME")]  # fmt: skip
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            filters = 64 * 2**stage
            layers.append(Block(channels, filters, 2 if stage and not block else 1, rngs))
            channels = 4 * filters
    return Sequence(*layers, partial(jnp.mean, axis=(1, 2)), nnx.Linear(channels, 1000, rngs=rngs))


def _perceptron(*units: int, rngs: nnx.Rngs, dropout: float = 0.0) -> Sequence:
    layers, sizes = [], (784, *units)
    for inputs, outputs in zip(sizes, units, strict=False):
        layers += [nnx.Linear(inputs, outputs, rngs=rngs), nnx.relu]
        layers += [nnx.Dropout(dropout, rngs=rngs)] if dropout else []
    return Sequence(*layers, nnx.Linear(units[-1], 10, rngs=rngs))


def _sentiment(rngs: nnx.Rngs) -> Sequence:
    return Sequence(
        nnx.Embed(5000, 50, rngs=rngs), nnx.Dropout(0.2, rngs=rngs),
        nnx.Conv(50, 250, (3,), padding="VALID", rngs=rngs), nnx.relu, partial(jnp.max, axis=1),
        nnx.Linear(250, 250, rngs=rngs), nnx.Dropout(0.2, rngs=rngs), nnx.relu, nnx.Linear(250, 2, rngs=rngs),
    )  # fmt: skip


NETWORKS = {
    "mnist-mlp-chainer": partial(_perceptron, 1000, 1000),
    "mnist-mlp-keras": partial(_perceptron, 512, 512, dropout=0.2),
    "mnist-mlp-flux": partial(_perceptron, 32),
    "imdb-cnn": _sentiment,
    "imagenet-resnet50": _resnet50,
}

OPTIMIZERS = {
    "mnist-mlp-keras": lambda: optax.rmsprop(1e-3),
    "imagenet-resnet50": lambda: optax.sgd(0.01, momentum=0.9),
}
"""Rules other than Adam."""


def loss_fn(model: nnx.Module, batch: dict) -> tuple:
    """Return the loss of a batch, and the logits."""
    logits = model(batch["image"])
    return optax.softmax_cross_entropy_with_integer_labels(logits=logits, labels=batch["label"]).mean(), logits


@nnx.jit
def train_step(model: nnx.Module, optimizer: nnx.Optimizer, metrics: nnx.MultiMetric, batch: dict) -> None:
    """Train for a single step."""
    (loss, logits), gradients = nnx.value_and_grad(loss_fn, has_aux=True)(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["label"])
    optimizer.update(model, gradients)


def flax_trainer(
    recipe: str, inputs: np.ndarray, labels: np.ndarray, batch_size: int, shares: bool = False
) -> Callable[[], None]:
    """Return a function that trains one epoch with Flax.

    shares: whether these are the samples of one of several workers, as in "Multi-process programming" of JAX.
    """
    model = NETWORKS[recipe](rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, OPTIMIZERS.get(recipe, lambda: optax.adam(1e-3))(), wrt=nnx.Param)
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
    if recipe.startswith("mnist"):
        inputs = inputs.reshape(len(inputs), -1)
    if recipe == "imagenet-resnet50":
        inputs = np.ascontiguousarray(np.moveaxis(inputs, 1, -1))
    generator, place = np.random.default_rng(0), lambda array: array
    if shares:
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("workers",))
        divided, everywhere = (jax.sharding.NamedSharding(mesh, jax.P(*axes)) for axes in (("workers",), ()))
        place = partial(jax.make_array_from_process_local_data, divided)
        both = (model, optimizer, metrics)
        spread = partial(jax.make_array_from_process_local_data, everywhere)
        nnx.update(both, jax.tree.map(lambda leaf: spread(np.asarray(leaf)), nnx.state(both, nnx.Not(nnx.RngState))))

    def train() -> None:
        order = generator.permutation(len(inputs))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            train_step(model, optimizer, metrics, {"image": place(inputs[batch]), "label": place(labels[batch])})
        metrics.compute()["loss"].block_until_ready()
        metrics.reset()

    return train
