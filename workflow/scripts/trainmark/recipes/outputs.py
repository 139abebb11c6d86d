"""What is made of a network's logits: probabilities, loss and accuracy. Float64, the same for every framework."""

import numpy as np


def cross_entropy_and_accuracy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean of -log softmax(logits)[label], fused so that it can't overflow, and the share of right argmax.

    logits: (samples, classes). labels: (samples,). The arithmetic is float64. NaN logits give a NaN loss.
    """
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # a diverged network: the NaN is the answer
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_normalizer = np.log(np.exp(shifted).sum(axis=1))
        loss = np.mean(log_normalizer - shifted[np.arange(len(labels)), labels])
    return float(loss), float(np.mean(logits.argmax(axis=1) == labels))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax of logits (samples, classes), in float64, that can't overflow; NaN where logits are not finite."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a diverged network: the NaN is the answer
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares
