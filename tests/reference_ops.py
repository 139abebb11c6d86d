"""Each layer type by its definition, in plain numpy and plain loops: the reference that every adapter must match.

`forward(node, inputs, weights)` takes batches in the canonical layout, channels first, and returns one; float64.
"""

from itertools import product

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
    kernel = weights[f"{node.name}.kernel"]
    bias = weights.get(f"{node.name}.bias", 0.0)
    output = None
    for position, window, counts in _windows(node, x, 0.0):
        output = np.empty((len(x), kernel.shape[-1], *counts)) if output is None else output
        axes = list(range(2, x.ndim))
        output[(..., *position)] = np.tensordot(window, kernel, ([*axes, 1], list(range(x.ndim - 1)))) + bias
    return output


def _batch_norm(node, x, weights):
    """Normalise with the statistics of the batch (biased variance)."""
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    gamma, beta = (weights[f"{node.name}.{role}"].reshape(shape) for role in ("gamma", "beta"))
    return gamma * (x - mean) / np.sqrt(variance + node.attributes["epsilon"]) + beta


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
    "Dense": lambda node, x, weights: x @ weights[f"{node.name}.kernel"] + weights.get(f"{node.name}.bias", 0.0),
    "Conv2D": _convolution,
    "Conv1D": _convolution,
    "Embedding": lambda node, x, weights: np.moveaxis(weights[f"{node.name}.embeddings"][x], -1, 1),
    "BatchNorm": _batch_norm,
    "LRN": _local_response_norm,
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
