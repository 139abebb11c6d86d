"""The training with rmsprop_warmup, from the formulas of its authors, without anything of trainmark.

Akiba et al. 2017 (arXiv 1711.04325), as in the ImageNet example for TSUBAME. Epochs are counted from 0, as there.
"""

import numpy as np


def shares(epoch, slope):
    """(share of SGD, learning rate over its base). slope: 2/5 as it was published, or 1/5."""
    if epoch < 10:
        share = 0.5 * np.exp(2 * (epoch - 10) / 5)
    elif epoch < 12.5:
        share = 0.5 + slope * (epoch - 10)
    else:
        share = 1.0
    rate = 0.5 if epoch < 40 else 0.075 if epoch < 70 else 0.01 if epoch < 85 else 0.001
    return share, rate


def softmax_regression(inputs, labels, kernel):
    """(mean cross entropy, its gradient with respect to the kernel)."""
    odds = np.exp(inputs @ kernel)
    chances = odds / odds.sum(axis=1, keepdims=True)
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    return loss, inputs.T @ (chances - np.eye(kernel.shape[1])[labels]) / len(labels)


def trained_by_hand(inputs, labels, kernel, orders, batch_size, reference_rate, slope):
    """(losses of all steps, the trained kernel) of a softmax regression, one epoch for each order.

    reference_rate: the learning rate of 256 samples per step.
    """
    square, velocity, losses = np.zeros_like(kernel), np.zeros_like(kernel), []
    for epoch, order in enumerate(orders):
        alpha_sgd, factor = shares(epoch, slope)
        rate = factor * reference_rate * batch_size / 256
        alpha_rmsprop = (1 - alpha_sgd) * 0.0003 / rate
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            loss, gradient = softmax_regression(inputs[batch], labels[batch], kernel)
            losses.append(loss)
            square = 0.99 * square + 0.01 * gradient**2
            velocity = 0.9 * velocity - alpha_sgd * gradient
            kernel = kernel + rate * (velocity - alpha_rmsprop * gradient / (np.sqrt(square) + 1e-8))
    return losses, kernel
