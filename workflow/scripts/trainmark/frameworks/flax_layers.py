"""Builds an architecture with Flax: each layer type, and the network of them.

Images are (height, width, channels) and sequences (length, channels), as in Flax's documentation; the layout of the
architecture has the channels first. If Flax has no layer that computes what the architecture defines, this module has
one; docs/frameworks.md lists them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from math import prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from flax import nnx

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Shape, window_count


class BatchNorm(nnx.Module):
    """Batch normalisation as in Chainer, with an unbiased running variance.

    Flax's own layer has a biased one, and computes its statistics partly in float32, whatever the dtype of the weights.
    """

    def __init__(self, channels: int, epsilon: float, decay: float, dtype: str) -> None:
        self.epsilon, self.decay = epsilon, decay
        self.use_running_average = False  # set by `train` and `eval` of the network
        self.scale, self.bias = nnx.Param(jnp.ones(channels, dtype)), nnx.Param(jnp.zeros(channels, dtype))
        self.mean, self.var = nnx.BatchStat(jnp.zeros(channels, dtype)), nnx.BatchStat(jnp.ones(channels, dtype))

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Normalise by the batch's statistics in training, otherwise by the running statistics."""
        if self.use_running_average:
            return (inputs - self.mean[...]) * self._scale(self.var[...]) + self.bias[...]
        axes, count = tuple(range(inputs.ndim - 1)), prod(inputs.shape[:-1])
        mean = inputs.sum(axes) / count
        # The gradient goes through the sum of each channel below and not through each value's mean, which takes longer.
        # That of the variance with respect to the mean is 0.
        constant_mean = jax.lax.stop_gradient(mean)
        centred = inputs - constant_mean
        variance = jnp.square(centred).sum(axes) / count
        for statistic, value in ((self.mean, mean), (self.var, variance * (count / max(count - 1, 1)))):
            statistic[...] = statistic[...] * self.decay + value * (1 - self.decay)
        scale = self._scale(variance)
        return centred * scale + (self.bias[...] - (mean - constant_mean) * scale)

    def _scale(self, variance: jax.Array) -> jax.Array:
        return self.scale[...] * jax.lax.rsqrt(variance + self.epsilon)


class OwnArray(nnx.Module):
    """A layer with one array that Flax lacks.

    name, shape: of the array. compute: function (inputs, array) -> output.
    """

    def __init__(self, name: str, shape: Shape, compute: Callable, dtype: str) -> None:
        self.name, self.compute = name, compute
        setattr(self, name, nnx.Param(jnp.zeros(shape, dtype)))

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Return the output."""
        return self.compute(inputs, getattr(self, self.name)[...])


def _class_token(inputs: jax.Array, token: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.broadcast_to(token, (len(inputs), 1, len(token))), inputs], axis=1)


def attention(query: jax.Array, key: jax.Array, value: jax.Array, /, heads: int, causal: bool) -> jax.Array:
    """Return scaled dot-product attention, whose heads divide the channels.

    Flax's own takes the root of a head's units in float32, whatever the dtype of the weights.
    """
    query, key, value = (x.reshape(*x.shape[:2], heads, -1) for x in (query, key, value))
    scores = jnp.einsum("nqhu,nkhu->nhqk", query, key) * query.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(np.tri(query.shape[1], dtype=bool), scores, -jnp.inf)
    return jnp.einsum("nhqk,nkhu->nqhu", nnx.softmax(scores), value).reshape(*query.shape[:2], -1)


def _product(inputs: jax.Array, factor: jax.Array) -> jax.Array:
    """Return the product with an array of the same shape, or with a value for each channel."""
    return inputs * jnp.expand_dims(factor, tuple(range(1, 1 + inputs.ndim - factor.ndim)))


def local_response_norm(inputs: jax.Array, /, n: float, k: float, alpha: float, beta: float) -> jax.Array:
    """Return x / (k + alpha * sum of squares over n neighbouring channels)^beta. Flax has no layer for it.

    The sums over neighbours are a product with a matrix that has ones where channels are neighbours. Source:
    functions.local_response_normalization of Chainer; alpha is not divided by n.
    """
    place = np.arange(inputs.shape[-1])
    neighbours = np.abs(place - place[:, np.newaxis]) <= n // 2
    normaliser = k + alpha * (jnp.square(inputs) @ neighbours.astype(inputs.dtype))
    if beta == 0.75:  # the usual value, without a power, which takes several times as long as a root
        root = jax.lax.rsqrt(normaliser)
        return inputs * (root * jnp.sqrt(root))
    return inputs * normaliser**-beta


class Mask(nnx.Variable):
    """The mask of a GivenDropout."""


class GivenDropout(nnx.Module):
    """Dropout with a mask that is set from outside; all ones before that."""

    def __init__(self, shape: Shape, dtype: str) -> None:
        self.deterministic = False
        self.mask = Mask(jnp.ones(shape, dtype))

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Multiply by the mask in training."""
        return inputs if self.deterministic else inputs * self.mask[...]


def _flatten(inputs: jax.Array) -> jax.Array:
    """Flatten in the order of the architecture, channels first."""
    return jnp.moveaxis(inputs, -1, 1).reshape(len(inputs), -1)


def _binary_logits(logit: jax.Array) -> jax.Array:
    """Return the two logits (0, z) of one logit z."""
    return jnp.concatenate([jnp.zeros_like(logit), logit], axis=-1)


def _pool(pool: Callable, node: Node, shape: Shape) -> Callable:
    """Return a pooling with as much padding as its windows need."""
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    counts = [window_count(side, size, stride, padding, bool(node.attributes.get("ceil"))) for side in shape[1:]]
    ends = [(count - 1) * stride + size - padding for count in counts]
    pads = [(padding, max(0, end - side)) for end, side in zip(ends, shape[1:], strict=True)]
    return partial(pool, window_shape=(size, size), strides=(stride, stride), padding=pads)


def convolution(node: Node, shape: Shape, options: dict[str, Any], layer: Callable = nnx.Conv) -> Callable:
    """Return a convolution. options: keyword arguments of nnx.Conv. layer: nnx.Conv, or a class derived from it."""
    channels, *sides = shape
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    return layer(
        channels,
        node.integer("filters"),
        (size,) * len(sides),
        stride,
        padding=((padding, padding),) * len(sides),
        feature_group_count=int(node.attributes.get("groups", 1)),
        use_bias=bool(node.attributes["bias"]),
        **options,
    )


def _dense(node: Node, shape: Shape, options: dict[str, Any]) -> nnx.Linear:
    return nnx.Linear(shape[0], node.integer("units"), use_bias=bool(node.attributes["bias"]), **options)


LAYERS: Mapping[str, Callable[[Node, Shape, dict[str, Any]], Callable]] = {
    "Flatten": lambda node, shape, options: _flatten,
    "Dense": _dense,
    "Conv2D": convolution,
    "Conv1D": convolution,
    "Embedding": lambda node, shape, options: nnx.Embed(node.integer("vocabulary"), node.integer("units"), **options),
    "BatchNorm": lambda node, shape, options: BatchNorm(shape[0], **node.attributes, dtype=options["dtype"]),
    "LRN": lambda node, shape, options: partial(local_response_norm, **node.attributes),
    # The fast variance, the default, is the mean square minus the squared mean, which loses digits.
    "LayerNorm": lambda node, shape, options: nnx.LayerNorm(
        shape[0], epsilon=node.attributes["epsilon"], use_fast_variance=False, **options
    ),
    "GroupNorm": lambda node, shape, options: nnx.GroupNorm(
        shape[0], node.integer("groups"), epsilon=node.attributes["epsilon"], use_fast_variance=False, **options
    ),
    "LayerScale": lambda node, shape, options: OwnArray("scale", shape[:1], jnp.multiply, options["dtype"]),
    "ReLU": lambda node, shape, options: nnx.relu,
    "ReLU6": lambda node, shape, options: nnx.relu6,
    "GELU": lambda node, shape, options: partial(nnx.gelu, approximate=bool(node.attributes["approximate"])),
    "SiLU": lambda node, shape, options: nnx.silu,
    "Sigmoid": lambda node, shape, options: nnx.sigmoid,
    "Tanh": lambda node, shape, options: nnx.tanh,
    "Softmax": lambda node, shape, options: nnx.softmax,
    "Dropout": lambda node, shape, options: nnx.Dropout(node.attributes["rate"], rngs=options["rngs"]),
    "MaxPool2D": lambda node, shape, options: _pool(nnx.max_pool, node, shape),
    "AvgPool2D": lambda node, shape, options: _pool(nnx.avg_pool, node, shape),
    "GlobalMaxPool1D": lambda node, shape, options: partial(jnp.max, axis=1),
    "GlobalAvgPool2D": lambda node, shape, options: partial(jnp.mean, axis=(1, 2)),
    "GlobalAvgPool1D": lambda node, shape, options: partial(jnp.mean, axis=1),
    "Sequence": lambda node, shape, options: lambda inputs: inputs.reshape(len(inputs), -1, inputs.shape[-1]),
    "ClassToken": lambda node, shape, options: OwnArray("token", shape[:1], _class_token, options["dtype"]),
    "PositionEmbedding": lambda node, shape, options: OwnArray("positions", shape[::-1], jnp.add, options["dtype"]),
    "SelectToken": lambda node, shape, options: lambda inputs: inputs[:, node.integer("position")],
    "SliceChannels": lambda node, shape, options: (
        lambda inputs: inputs[..., node.integer("start") : node.integer("stop")]
    ),
    "Attention": lambda node, shape, options: partial(
        attention, heads=node.integer("heads"), causal=bool(node.attributes["causal"])
    ),
    "Multiply": lambda node, shape, options: _product,
    "Concat": lambda node, shape, options: lambda *inputs: jnp.concatenate(inputs, axis=-1),
    "Add": lambda node, shape, options: lambda *inputs: reduce(add, inputs),
    "BinaryLogits": lambda node, shape, options: _binary_logits,
}
"""Functions (node, shape of its first input, channels first, {dtype, param_dtype, rngs}) -> layer."""


def layer_name(node: str) -> str:
    """Return the name of the attribute of a Network that is a node's layer. It differs from all that modules have."""
    return f"layer_{node}"


class Network(nnx.Module):
    """An architecture as a module of Flax.

    observed_batch: see `ObservedAdapter.build`.
    replaced: entries in place of those of LAYERS.
    """

    def __init__(
        self, architecture: Architecture, dtype: str, observed_batch: int | None, replaced: Mapping[str, Callable]
    ) -> None:
        layers, shapes = {**LAYERS, **replaced}, architecture.shapes()
        if observed_batch:
            layers["Dropout"] = lambda node, shape, options: GivenDropout(
                (observed_batch, *shape[1:], shape[0]) if len(shape) > 1 else (observed_batch, *shape), dtype
            )
        options = {"dtype": dtype, "param_dtype": dtype, "rngs": nnx.Rngs(0)}
        for node in architecture.nodes:
            setattr(self, layer_name(node.name), layers[node.op](node, shapes[node.inputs[0]], options))
        self.order = tuple((node.name, node.inputs) for node in architecture.nodes)
        self.heads = architecture.heads
        self.head_weights = (1.0, *(weight for _, weight in architecture.auxiliary))

    def outputs(self, inputs: jax.Array) -> Iterator[tuple[str, jax.Array]]:
        """Yield (name, output with the channels last) of "input" and of every node, in order."""
        outputs = {"input": inputs}
        yield "input", inputs
        for name, sources in self.order:
            outputs[name] = self.layer(name)(*(outputs[source] for source in sources))
            yield name, outputs[name]

    def __call__(self, inputs: jax.Array) -> list[jax.Array]:
        """Return the logits of each head (samples, classes), the main head's first."""
        outputs = dict(self.outputs(inputs))
        return [outputs[head] for head in self.heads]

    def layer(self, name: str) -> Any:
        """Return the layer of a node."""
        return getattr(self, layer_name(name))


def mean_cross_entropy(
    network: Network, inputs: jax.Array, labels: jax.Array, mean: Callable[[jax.Array], jax.Array] = jnp.mean
) -> jax.Array:
    """Return the loss of a step: softmax cross entropy, plus the weighted ones of auxiliary heads.

    mean: takes that of the samples' losses.
    """
    losses = [
        weight * mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))
        for weight, logits in zip(network.head_weights, network(inputs), strict=True)
    ]
    return reduce(add, losses)
