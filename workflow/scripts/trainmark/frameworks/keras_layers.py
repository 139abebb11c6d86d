"""Builds an architecture with Keras: each layer type, and the outputs of all layers.

Images are (height, width, channels) and sequences (length, channels). This is Keras's default and the only layout that
TensorFlow's convolutions take on the CPU. The layout of the architecture has the channels first. If Keras's own layer
can't compute what the architecture defines, this module has a layer for it; docs/frameworks.md lists them. Weights
start from numpy's zeros until `set_weights` sets them: on JAX, Keras's own initializers are compiled, for seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import pi, sqrt
from typing import Any

import keras
import numpy as np
from keras import ops

from trainmark.frameworks.adapter import check_shape
from trainmark.frameworks.layouts import channels_first, channels_last
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Node, Shape, window_count


class BatchNorm(keras.layers.Layer):
    """Batch normalisation as in Chainer, with an unbiased running variance; Keras's own layer has a biased one.

    Keras's own layer on JAX also computes partly in float32, whatever the dtype of the weights.
    """

    def __init__(self, epsilon: float, decay: float, **named: str) -> None:
        super().__init__(**named)
        self._epsilon, self._decay = epsilon, decay

    def build(self, input_shape: Shape) -> None:
        """Add trained scale and offset and running statistics, one value each per channel."""
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(shape=shape, initializer=np.ones, name="gamma")
        self.beta = self.add_weight(shape=shape, initializer=np.zeros, name="beta")
        self.moving_mean = self.add_weight(shape=shape, initializer=np.zeros, trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(
            shape=shape, initializer=np.ones, trainable=False, name="moving_variance"
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Normalise by the batch's statistics in training, otherwise by the running statistics."""
        if not training:
            return (inputs - self.moving_mean) * self._scale(self.moving_variance) + self.beta
        axes = tuple(range(len(inputs.shape) - 1))
        count = ops.cast(ops.shape(inputs)[0], inputs.dtype) * float(np.prod(inputs.shape[1:-1]))
        mean = ops.sum(inputs, axis=axes) / count  # not ops.mean, which computes in float32 on JAX
        # The gradient goes through the sum of each channel below and not through each value's mean, which takes longer.
        # That of the variance with respect to the mean is 0.
        constant_mean = ops.stop_gradient(mean)
        centred = inputs - constant_mean
        variance = ops.sum(ops.square(centred), axis=axes) / count
        self._update_running_statistics(mean, variance * (count / ops.maximum(count - 1.0, 1.0)))
        scale = self._scale(variance)
        return centred * scale + (self.beta - (mean - constant_mean) * scale)

    def _scale(self, variance: Any) -> Any:
        return self.gamma * ops.rsqrt(variance + self._epsilon)

    def _update_running_statistics(self, mean: Any, variance: Any) -> None:
        self.moving_mean.assign(self.moving_mean * self._decay + mean * (1 - self._decay))
        self.moving_variance.assign(self.moving_variance * self._decay + variance * (1 - self._decay))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


class Normalisation(keras.layers.Layer):
    """Layer normalisation of each position or, with groups, group normalisation.

    Keras's own layers compute in float32 on JAX and torch, whatever the dtype of the weights.
    """

    def __init__(self, epsilon: float, groups: int | None = None, **named: str) -> None:
        super().__init__(**named)
        self._epsilon, self._groups = epsilon, groups

    def build(self, input_shape: Shape) -> None:
        """Add a trained scale and offset for each channel."""
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(shape=shape, initializer=np.ones, name="gamma")
        self.beta = self.add_weight(shape=shape, initializer=np.zeros, name="beta")

    def call(self, inputs: Any) -> Any:
        """Normalise by the mean and the biased variance, then scale and shift."""
        *sides, channels = inputs.shape[1:]
        values, axes = inputs, (1, 3) if self._groups else (-1,)
        if self._groups:
            values = ops.reshape(inputs, (-1, int(np.prod(sides)), self._groups, channels // self._groups))
        count = float(np.prod([values.shape[axis] for axis in axes]))
        centred = values - ops.sum(values, axis=axes, keepdims=True) / count  # not ops.mean: float32 on JAX
        variance = ops.sum(ops.square(centred), axis=axes, keepdims=True) / count
        normalised = ops.reshape(centred * ops.rsqrt(variance + self._epsilon), (-1, *sides, channels))
        return normalised * self.gamma + self.beta

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


class OwnArray(keras.layers.Layer):
    """A layer with one array that Keras lacks.

    role: of the array. axes: how many axes of the input it has, the last ones.
    compute: function (inputs, array) -> output.
    """

    def __init__(self, role: str, axes: int, compute: Callable, **named: str) -> None:
        super().__init__(**named)
        self._role, self._axes, self._compute = role, axes, compute

    def build(self, input_shape: Shape) -> None:
        """Add the array."""
        array = self.add_weight(shape=input_shape[-self._axes :], initializer=np.zeros, name=self._role)
        setattr(self, self._role, array)

    def call(self, inputs: Any) -> Any:
        """Return the output."""
        return self._compute(inputs, getattr(self, self._role))


class Operation(keras.layers.Layer):
    """A layer without arrays that Keras lacks. compute: function of the inputs of the node."""

    def __init__(self, compute: Callable, **named: str) -> None:
        super().__init__(**named)
        self._compute = compute

    def call(self, inputs: Any) -> Any:
        """Return the output."""
        return self._compute(*inputs) if isinstance(inputs, list | tuple) else self._compute(inputs)


class LocalResponseNorm(keras.layers.Layer):
    """x / (k + alpha * sum of squares over n neighbouring channels)^beta. Keras has no layer for it.

    Source: functions.local_response_normalization of Chainer; alpha is not divided by n.
    """

    def __init__(self, n: int, k: float, alpha: float, beta: float, **named: str) -> None:
        super().__init__(**named)
        self._n, self._k, self._alpha, self._beta = n, k, alpha, beta

    def call(self, inputs: Any) -> Any:
        """Compute the sums over neighbours as a product with a matrix that has ones where channels are neighbours."""
        place = np.arange(inputs.shape[-1])
        neighbours = np.abs(place - place[:, np.newaxis]) <= self._n // 2
        # Not by ops.matmul, which computes in float32 on torch, also in a float64 network.
        total = ops.einsum("nhwc,cd->nhwd", ops.square(inputs), ops.cast(neighbours, inputs.dtype))
        normaliser = self._k + self._alpha * total
        if self._beta == 0.75:  # the usual value, without a power, which takes several times as long as a root
            root = ops.rsqrt(normaliser)
            return inputs * (root * ops.sqrt(root))
        return inputs * ops.power(normaliser, -self._beta)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def _average_by_convolution(inputs: Any, size: int, stride: int, shares: Sequence[np.ndarray]) -> Any:
    kernel = np.full((size, size, inputs.shape[-1], 1), 1 / size**2)
    return ops.depthwise_conv(inputs, ops.cast(kernel, inputs.dtype), stride, "same", data_format="channels_last")


def _average_by_shares(inputs: Any, size: int, stride: int, shares: Sequence[np.ndarray]) -> Any:
    averages = ops.average_pool(inputs, size, stride, "same", data_format="channels_last")  # without the padding
    return averages * ops.cast(np.outer(*shares)[:, :, None], averages.dtype)


PADDED_AVERAGES: Mapping[str, Callable] = {"tensorflow": _average_by_convolution, "jax": _average_by_shares}
"""By backend, a faster way to average with Keras's own padding, which counts as zeros: functions (inputs, size of a
window, stride, along each axis the share of each window that is not padding)."""


class Pool2D(keras.layers.Layer):
    """Pooling with explicit padding; Keras's own "same" padding is placed differently.

    A maximum pads with minus infinity, an average with zeros that count as values, as in Chainer (TensorFlow excludes
    padding from an average). Where Keras's padding lies in the same places, it is used, which is faster.

    ceil: let the last window extend beyond the end.
    """

    def __init__(self, pool: Callable, size: int, stride: int, padding: int, ceil: bool, **named: str) -> None:
        super().__init__(**named)
        self._pool, self._size, self._stride, self._padding, self._ceil = pool, size, stride, padding, ceil

    def call(self, inputs: Any) -> Any:
        """Pad as much as the windows need, then pool."""
        sides = inputs.shape[1:3]
        pads, is_maximum = [self._pads(side) for side in sides], self._pool is ops.max_pool
        if any(map(any, pads)):
            as_keras = pads == [self._pads_of_keras(side) for side in sides]
            if as_keras and is_maximum:
                return self._pool(inputs, self._size, self._stride, "same", data_format="channels_last")
            if as_keras and (average := PADDED_AVERAGES.get(keras.backend.backend())):
                return average(inputs, self._size, self._stride, [*map(self._shares, sides, pads)])
            inputs = ops.pad(inputs, ((0, 0), *pads, (0, 0)), constant_values=-np.inf if is_maximum else 0.0)
        return self._pool(inputs, self._size, self._stride, "valid", data_format="channels_last")

    def _pads(self, side: int) -> tuple[int, int]:
        count = window_count(side, self._size, self._stride, self._padding, self._ceil)
        return self._padding, max(0, (count - 1) * self._stride + self._size - side - self._padding)

    def _pads_of_keras(self, side: int) -> tuple[int, int]:
        """Return the padding before and after an axis that Keras calls "same"."""
        total = max(0, (-(-side // self._stride) - 1) * self._stride + self._size - side)
        return total // 2, total - total // 2

    def _shares(self, side: int, pads: tuple[int, int]) -> np.ndarray:
        """Return the share of each window along an axis that is not padding."""
        inside = np.pad(np.ones(side), pads)
        starts = range(0, len(inside) - self._size + 1, self._stride)
        return np.array([inside[start : start + self._size].mean() for start in starts])


class GivenDropout(keras.layers.Layer):
    """Dropout with a mask that is set from outside; all ones before that."""

    def __init__(self, samples: int, **named: str) -> None:
        super().__init__(**named)
        self._samples = samples

    def build(self, input_shape: Shape) -> None:
        """Add the mask of a batch."""
        shape = (self._samples, *input_shape[1:])
        self.mask = self.add_weight(shape=shape, initializer="ones", trainable=False, name="mask")

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Multiply by the mask in training."""
        return inputs * self.mask if training else inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


class Heads(keras.layers.Layer):
    """The logits of several heads as one output: (samples, heads, classes)."""

    def call(self, inputs: Sequence[Any]) -> Any:
        """Stack the logits in their order."""
        return ops.stack(inputs, axis=1)


def convolution(layer: Callable, node: Node) -> Callable:
    """Return a convolution. layer: keras.layers.Conv1D or Conv2D, or a class derived from them."""
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    same = padding and stride == 1 and 2 * padding == size - 1
    groups = {"groups": node.integer("groups")} if "groups" in node.attributes else {}
    convolve = layer(
        node.integer("filters"),
        size,
        strides=stride,
        padding="same" if same else "valid",
        use_bias=bool(node.attributes["bias"]),
        kernel_initializer=np.zeros,
        bias_initializer=np.zeros,
        name=node.name,
        **groups,
    )
    if same or not padding:
        return convolve
    # With a stride, Keras's "same" may pad only the far side.
    pads = keras.layers.ZeroPadding1D if node.op == "Conv1D" else keras.layers.ZeroPadding2D
    zeros = pads(padding, name=f"{node.name}_padding")
    return lambda inputs: convolve(zeros(inputs))


def _flatten(node: Node, rank: int) -> Callable:
    """Flatten in the order of the architecture, channels first."""
    flatten = keras.layers.Flatten(name=node.name)
    if rank == 1:
        return flatten
    channels_first = keras.layers.Permute((rank, *range(1, rank)), name=f"{node.name}_channels_first")
    return lambda inputs: flatten(channels_first(inputs))


def _pool(pool: Callable, node: Node) -> Callable:
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    return Pool2D(pool, size, stride, padding, ceil=bool(node.attributes.get("ceil")), name=node.name)


def _dense(node: Node, rank: int) -> Callable:
    return keras.layers.Dense(
        node.integer("units"),
        use_bias=bool(node.attributes["bias"]),
        kernel_initializer=np.zeros,
        bias_initializer=np.zeros,
        name=node.name,
    )


def _mean(inputs: Any) -> Any:
    """Return the mean over all positions; not by ops.mean, which computes in float32 on JAX."""
    axes = tuple(range(1, len(inputs.shape) - 1))
    return ops.sum(inputs, axis=axes) / float(np.prod([inputs.shape[axis] for axis in axes]))


def _tanh(inputs: Any) -> Any:
    """Return the hyperbolic tangent, of float64 by the logistic function: on JAX, ops.tanh gives float32."""
    if keras.backend.standardize_dtype(inputs.dtype) == "float64":
        return 2.0 * ops.sigmoid(2.0 * inputs) - 1.0
    return ops.tanh(inputs)


def _gelu(approximate: bool) -> Callable:
    """Return GELU by erf or tanh. Keras's has constants in float32 on TensorFlow, and a tanh in float32 on JAX."""
    if keras.backend.backend() == "torch":
        return partial(ops.gelu, approximate=approximate)
    if approximate:
        return lambda x: x * (0.5 * _tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)) + 0.5)
    return lambda x: x * (0.5 * ops.erf(x * sqrt(0.5)) + 0.5)


def _class_token(inputs: Any, token: Any) -> Any:
    token = ops.broadcast_to(token, (ops.shape(inputs)[0], 1, inputs.shape[-1]))
    return ops.concatenate([token, inputs], axis=1)


def _product(inputs: Any, factor: Any) -> Any:
    """Return the product with an array of the same shape, or with a value for each channel."""
    return inputs * ops.reshape(factor, (-1, *[1] * (len(inputs.shape) - len(factor.shape)), *factor.shape[1:]))


def _attention(node: Node, rank: int) -> Callable:
    """Return scaled dot-product attention, whose heads divide the channels, as Keras's own layer computes it.

    Not by ops.dot_product_attention, which takes float32 on JAX and torch, and on TensorFlow for the scale.
    """
    heads, causal = node.integer("heads"), bool(node.attributes["causal"])

    def compute(*inputs: Any) -> Any:
        query, key, value = (ops.reshape(x, (-1, x.shape[1], heads, x.shape[2] // heads)) for x in inputs)
        scores = ops.einsum("nqhu,nkhu->nhqk", query, key) * query.shape[3] ** -0.5
        if causal:
            scores = ops.where(np.tri(query.shape[1], dtype=bool), scores, -np.inf)
        attended = ops.einsum("nhqk,nkhu->nqhu", ops.softmax(scores), value)
        return ops.reshape(attended, (-1, query.shape[1], inputs[2].shape[2]))

    return Operation(compute, name=node.name)


def _activation(node: Node, rank: int) -> Callable:
    return keras.layers.Activation(ACTIVATIONS[node.op], name=node.name)


ACTIVATIONS: Mapping[str, Callable] = {
    "ReLU6": ops.relu6, "SiLU": ops.silu, "Sigmoid": ops.sigmoid, "Tanh": _tanh, "Softmax": ops.softmax,
}  # fmt: skip
"""Functions of Keras that compute a layer without attributes."""

LAYERS: Mapping[str, Callable[[Node, int], Callable]] = {
    "Flatten": _flatten,
    "Dense": _dense,
    "Conv2D": lambda node, rank: convolution(keras.layers.Conv2D, node),
    "Conv1D": lambda node, rank: convolution(keras.layers.Conv1D, node),
    "Embedding": lambda node, rank: keras.layers.Embedding(
        node.integer("vocabulary"), node.integer("units"), embeddings_initializer=np.zeros, name=node.name
    ),
    "BatchNorm": lambda node, rank: BatchNorm(node.attributes["epsilon"], node.attributes["decay"], name=node.name),
    "LRN": lambda node, rank: LocalResponseNorm(
        node.integer("n"), *(node.attributes[name] for name in ("k", "alpha", "beta")), name=node.name
    ),
    "LayerNorm": lambda node, rank: Normalisation(node.attributes["epsilon"], name=node.name),
    "GroupNorm": lambda node, rank: Normalisation(node.attributes["epsilon"], node.integer("groups"), name=node.name),
    "LayerScale": lambda node, rank: OwnArray("gamma", 1, ops.multiply, name=node.name),
    "ReLU": lambda node, rank: keras.layers.ReLU(name=node.name),
    **dict.fromkeys(ACTIVATIONS, _activation),
    "GELU": lambda node, rank: Operation(_gelu(bool(node.attributes["approximate"])), name=node.name),
    "Dropout": lambda node, rank: keras.layers.Dropout(node.attributes["rate"], name=node.name),
    "MaxPool2D": lambda node, rank: _pool(ops.max_pool, node),
    "AvgPool2D": lambda node, rank: _pool(ops.average_pool, node),
    "GlobalMaxPool1D": lambda node, rank: keras.layers.GlobalMaxPooling1D(name=node.name),
    "GlobalAvgPool2D": lambda node, rank: Operation(_mean, name=node.name),
    "GlobalAvgPool1D": lambda node, rank: Operation(_mean, name=node.name),
    "Sequence": lambda node, rank: Operation(
        lambda inputs: ops.reshape(inputs, (-1, inputs.shape[1] * inputs.shape[2], inputs.shape[3])), name=node.name
    ),
    "ClassToken": lambda node, rank: OwnArray("token", 1, _class_token, name=node.name),
    "PositionEmbedding": lambda node, rank: OwnArray("positions", 2, ops.add, name=node.name),
    "SelectToken": lambda node, rank: Operation(lambda inputs: inputs[:, node.integer("position")], name=node.name),
    "SliceChannels": lambda node, rank: Operation(
        lambda inputs: inputs[..., node.integer("start") : node.integer("stop")], name=node.name
    ),
    "Attention": _attention,
    "Multiply": lambda node, rank: Operation(_product, name=node.name),
    "Concat": lambda node, rank: keras.layers.Concatenate(axis=-1, name=node.name),
    "Add": lambda node, rank: keras.layers.Add(name=node.name),
    "BinaryLogits": lambda node, rank: Operation(
        lambda inputs: ops.concatenate([ops.zeros_like(inputs), inputs], axis=-1), name=node.name
    ),
}
"""Functions (node, number of axes of its input without the batch axis) -> layer."""


def layer_outputs(
    framework: str, architecture: Architecture, observed_batch: int | None, replaced: Mapping[str, Callable]
) -> dict:
    """Return the symbolic outputs of "input" and of every node, by name.

    replaced: entries in place of those of LAYERS.

    Raises ShapeError if an output has another shape than in the architecture.
    """
    layers, shapes = {**LAYERS, **replaced}, architecture.shapes()
    dtype = "int32" if architecture.takes_tokens else None
    outputs = {"input": keras.Input(channels_last(architecture.input_shape), name="input", dtype=dtype)}
    for node in architecture.nodes:
        layer = layers[node.op](node, len(shapes[node.inputs[0]]))
        if node.op == "Dropout" and observed_batch:
            layer = GivenDropout(observed_batch, name=node.name)
        inputs = [outputs[name] for name in node.inputs]
        outputs[node.name] = layer(inputs[0] if len(inputs) == 1 else inputs)
        check_shape(framework, node.name, channels_first(tuple(outputs[node.name].shape[1:])), shapes[node.name])
    return outputs
