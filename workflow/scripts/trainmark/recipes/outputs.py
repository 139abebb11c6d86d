"""Loss, accuracies and probabilities from a network's logits, in float64, the same for every framework."""

from typing import NamedTuple

import numpy as np

TOP = 5
"""The k of the top-k accuracy that is recorded, as in the ImageNet challenge."""


class Evaluation(NamedTuple):
    """What a network makes of a split.

    loss: mean cross entropy.
    accuracy: share of samples whose largest logit is that of the label.
    top5_accuracy: share of samples with the label among the TOP largest logits; None if there are no more classes.
    """

    loss: float
    accuracy: float
    top5_accuracy: float | None


def evaluate(logits: np.ndarray, labels: np.ndarray) -> Evaluation:
    """Return loss and accuracies of logits (samples, classes) with labels (samples,)."""
    top = top_k_share(logits, labels, TOP) if logits.shape[1] > TOP else None
    return Evaluation(*cross_entropy_and_accuracy(logits, labels), top)


def top_k_share(logits: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Return the share of samples whose label is among the k classes with the largest logits.

    Of equal logits, the one of the smaller class counts as larger, as for `argmax`; so k = 1 gives the accuracy, and a
    network whose logits are all equal gets the share of the first k classes, not 1. A sample with a NaN logit is wrong.

    logits: (samples, classes). Comparing them needs no conversion to float64, which is exact and keeps their order.
    labels: (samples,).
    """
    own = logits[np.arange(len(labels)), labels][:, np.newaxis]
    with np.errstate(invalid="ignore"):  # NaN compares as false
        ahead = (logits > own) | ((logits == own) & (np.arange(logits.shape[1]) < np.asarray(labels)[:, np.newaxis]))
    return float(np.mean((ahead.sum(axis=1) < k) & ~np.isnan(logits).any(axis=1)))


def cross_entropy_and_accuracy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return (mean of the cross entropies, share of samples whose largest logit is that of the label).

    logits: (samples, classes).
    labels: (samples,).
    """
    with np.errstate(invalid="ignore", over="ignore"):  # a diverged network: NaN is the result
        loss = np.mean(cross_entropies(logits, labels))
    return float(loss), float(np.mean(logits.argmax(axis=1) == labels))


def cross_entropies(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return -log softmax(logits)[label] of each sample, float64, (samples,).

    logits: (samples, classes).
    labels: (samples,).

    Log and softmax are fused, so that they can't overflow. The arithmetic is float64. NaN logits give a NaN loss.
    """
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # a diverged network: NaN is the result
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_normalizer = np.log(np.exp(shifted).sum(axis=1))
        losses: np.ndarray = log_normalizer - shifted[np.arange(len(labels)), labels]
    return losses


def relative_differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (first - second) / max(|first|, |second|) of losses, in the shape of both; 0 for two zeros."""
    larger = np.maximum(np.abs(first), np.abs(second))
    differences: np.ndarray = np.divide(first - second, larger, out=np.zeros_like(larger), where=larger > 0)
    return differences


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of logits (samples, classes), in float64; it can't overflow. NaN if logits are not finite."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a diverged network: NaN is the result
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares
