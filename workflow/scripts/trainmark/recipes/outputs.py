"""Loss, accuracy and probabilities from a network's logits, in float64, the same for every framework."""

import numpy as np


def cross_entropy_and_accuracy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return (mean of -log softmax(logits)[label], share of samples whose largest logit is that of the label).

    logits: (samples, classes).
    labels: (samples,).

    Log and softmax are fused, so that they can't overflow. The arithmetic is float64. NaN logits give a NaN loss.
    """
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # a diverged network: NaN is the result
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_normalizer = np.log(np.exp(shifted).sum(axis=1))
        loss = np.mean(log_normalizer - shifted[np.arange(len(labels)), labels])
    return float(loss), float(np.mean(logits.argmax(axis=1) == labels))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of logits (samples, classes), in float64; it can't overflow. NaN if logits are not finite."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a diverged network: NaN is the result
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares
