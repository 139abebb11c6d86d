"""Each layer type by its definition, in plain numpy and plain loops: the reference that every adapter must match.

`forward(node, inputs, weights)` takes batches in the canonical layout, channels first, and returns one; float64.
"""

from itertools import product
from math import erf

import numpy as np


def _windows(node, x, fill):
    """Yield (position, window of the padded input, number of windows per axis); windows are cut at the end."""
    size, stride, padding = (node.integer(name) for name in ("size", "stride", "padding"))
    axes = x.ndim - 2
    padded = np.pad(x, ((0, 0), (0, 0), *((padding, padding),) * axes), constant_values=fill)
    room = [side - size for side in padded.shape[2:]]
    ceil = node.attributes.get("ceil")
    counts = [(-(-left // stride) if ceil else left // stride) + 1 for left in room]
    for position in product(*(range(count) for count in counts)):
        yield position, padded[(..., *(slice(at * stride, at * stride + size) for at in position))], counts


def _pool(node, x, fill, reduce):
    output = None
    for position, window, counts in _windows(node, x, fill):
        output = np.empty((*x.shape[:2], *counts)) if output is None else output
        output[(..., *position)] = reduce(window)
    return output


def _convolution(node, x, weights):
    """Each group of filters sees its own group of channels."""
    kernel, groups = weights[f"{node.name}.kernel"], int(node.attributes.get("groups", 1))
    parts = zip(np.split(x, groups, axis=1), np.split(kernel, groups, axis=-1), strict=True)
    output = np.concatenate([_convolved(node, *part) for part in parts], axis=1)
    return output + weights.get(f"{node.name}.bias", np.zeros(1)).reshape(-1, *[1] * (x.ndim - 2))


def _convolved(node, x, kernel):
    output = None
    for position, window, counts in _windows(node, x, 0.0):
        output = np.empty((len(x), kernel.shape[-1], *counts)) if output is None else output
        axes = list(range(2, x.ndim))
        output[(..., *position)] = np.tensordot(window, kernel, ([*axes, 1], list(range(x.ndim - 1))))
    return output


def _batch_norm(node, x, weights):
    """Normalise with the statistics of the batch (biased variance)."""
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    gamma, beta = (weights[f"{node.name}.{role}"].reshape(shape) for role in ("gamma", "beta"))
    return gamma * (x - mean) / np.sqrt(variance + node.attributes["epsilon"]) + beta


def _channels(array, x):
    """A value for each channel, or for each sample and channel, to be combined with x."""
    return array.reshape(*array.shape, *[1] * (x.ndim - 2))


def _normalised(node, x, axes, weights):
    """Over axes of x, with the biased variance; then a scale and a shift for each channel."""
    shape = x.shape
    groups = x.reshape(len(x), node.integer("groups"), -1) if "groups" in node.attributes else x
    mean, variance = groups.mean(axes, keepdims=True), groups.var(axes, keepdims=True)
    normalised = ((groups - mean) / np.sqrt(variance + node.attributes["epsilon"])).reshape(shape)
    return _channels(weights[f"{node.name}.gamma"], x) * normalised + _channels(weights[f"{node.name}.beta"], x)


def _dense(node, x, weights):
    product = np.einsum("nc...,cu->nu...", x, weights[f"{node.name}.kernel"])
    return product + _channels(weights.get(f"{node.name}.bias", np.zeros(1)), x)


def _gelu(node, x, weights):
    if node.attributes["approximate"]:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _softmax(x, axis=1):
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def _attention(node, queries, keys, values, weights):
    """Head by head, and query by query."""
    heads, output = node.integer("heads"), []
    for query, key, value in zip(*(np.split(x, heads, axis=1) for x in (queries, keys, values)), strict=True):
        scores = np.einsum("ncq,nck->nqk", query, key) / np.sqrt(query.shape[1])
        for i in range(scores.shape[1] if node.attributes["causal"] else 0):
            scores[:, i, i + 1 :] = -np.inf
        output.append(np.einsum("nqk,nck->ncq", _softmax(scores, 2), value))
    return np.concatenate(output, axis=1)


def _class_token(node, x, weights):
    token = weights[f"{node.name}.token"]
    return np.concatenate([np.broadcast_to(token[:, None], (len(x), len(token), 1)), x], axis=2)


def _local_response_norm(node, x, weights):
    """Krizhevsky et al. 2012, section 3.3: over n channels centred on each; alpha is not divided by n."""
    half, channels = node.integer("n") // 2, x.shape[1]
    k, alpha, beta = (node.attributes[name] for name in ("k", "alpha", "beta"))
    found = np.empty_like(x)
    for i in range(channels):
        total = (x[:, max(0, i - half) : i + half + 1] ** 2).sum(axis=1)
        found[:, i] = x[:, i] / (k + alpha * total) ** beta
    return found


FORWARD = {
    "Flatten": lambda node, x, weights: x.reshape(len(x), -1),
    "Dense": _dense,
    "Conv2D": _convolution,
    "Conv1D": _convolution,
    "Embedding": lambda node, x, weights: np.moveaxis(weights[f"{node.name}.embeddings"][x], -1, 1),
    "BatchNorm": _batch_norm,
    "LRN": _local_response_norm,
    "LayerNorm": lambda node, x, weights: _normalised(node, x, 1, weights),
    "GroupNorm": lambda node, x, weights: _normalised(node, x, 2, weights),
    "LayerScale": lambda node, x, weights: _channels(weights[f"{node.name}.gamma"], x) * x,
    "ReLU6": lambda node, x, weights: np.clip(x, 0, 6),
    "GELU": _gelu,
    "SiLU": lambda node, x, weights: x / (1 + np.exp(-x)),
    "Sigmoid": lambda node, x, weights: 1 / (1 + np.exp(-x)),
    "Tanh": lambda node, x, weights: np.tanh(x),
    "Softmax": lambda node, x, weights: _softmax(x),
    "GlobalAvgPool2D": lambda node, x, weights: x.mean((2, 3)),
    "GlobalAvgPool1D": lambda node, x, weights: x.mean(2),
    "Sequence": lambda node, x, weights: x.reshape(*x.shape[:2], -1),
    "ClassToken": _class_token,
    "PositionEmbedding": lambda node, x, weights: x + weights[f"{node.name}.positions"].T,
    "SelectToken": lambda node, x, weights: x[:, :, node.integer("position")],
    "SliceChannels": lambda node, x, weights: x[:, node.integer("start") : node.integer("stop")],
    "Attention": _attention,
    "Multiply": lambda node, x, factor, weights: x * (_channels(factor, x) if factor.ndim < x.ndim else factor),
    "ReLU": lambda node, x, weights: np.maximum(x, 0),
    "MaxPool2D": lambda node, x, weights: _pool(node, x, -np.inf, lambda window: window.max((2, 3))),
    "AvgPool2D": lambda node, x, weights: _pool(node, x, 0.0, lambda window: window.mean((2, 3))),
    "GlobalMaxPool1D": lambda node, x, weights: x.max(axis=2),
    "Concat": lambda node, *inputs: np.concatenate(inputs[:-1], axis=1),
    "Add": lambda node, *inputs: sum(inputs[:-1]),
    "BinaryLogits": lambda node, x, weights: np.concatenate([np.zeros_like(x), x], axis=1),
}
"""Functions of every op except Dropout, which multiplies by its mask."""


def forward(node, inputs, weights):
    """The output of one layer."""
    return FORWARD[node.op](node, *inputs, weights)


def activations(architecture, inputs, weights, masks):
    """The output of every layer in training, by node, "input" first."""
    found = {"input": inputs}
    for node in architecture.nodes:
        if node.op == "Dropout":
            found[node.name] = found[node.inputs[0]] * masks[node.name]
        else:
            found[node.name] = forward(node, [found[name] for name in node.inputs], weights)
    return found


def loss(architecture, inputs, labels, weights, masks):
    """Mean cross entropy of a training step by the definition, plus the weighted auxiliary heads."""
    found = activations(architecture, inputs, weights, masks)
    total = 0.0
    for name, weight in ((architecture.output, 1.0), *architecture.auxiliary):
        probabilities = np.exp(found[name]) / np.exp(found[name]).sum(axis=1, keepdims=True)
        total -= weight * np.log(probabilities[np.arange(len(labels)), labels]).mean()
    return total
