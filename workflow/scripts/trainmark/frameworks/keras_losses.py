"""The loss of a step with Keras, and the metric that stores it."""

from typing import Any

import keras
import numpy as np
from keras import ops


def cross_entropies(labels: Any, logits: Any, auxiliary_weights: tuple[float, ...]) -> Any:
    """Return the loss of each sample (samples,): softmax cross entropy, plus the weighted ones of auxiliary heads.

    labels: (samples,).
    logits: (samples, classes), or (samples, heads, classes) with the main head first.
    """
    if not auxiliary_weights:
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    labels = ops.reshape(labels, (-1,))
    loss = 0.0
    for head, weight in enumerate((1.0, *auxiliary_weights)):
        loss = loss + weight * keras.losses.sparse_categorical_crossentropy(labels, logits[:, head], from_logits=True)
    return loss


def mean_cross_entropy(
    labels: Any, outputs: Any, auxiliary_weights: tuple[float, ...], sample_weight: Any = None
) -> Any:
    """Return the loss of a step, the mean of `cross_entropies`. Not with ops.mean, which computes in float32 on JAX.

    sample_weight: what to multiply each sample's loss by, (samples,); None for 1.
    """
    losses = cross_entropies(labels, outputs, auxiliary_weights)
    if sample_weight is not None:
        losses = losses * ops.cast(sample_weight, losses.dtype)
    return ops.sum(losses) / ops.cast(ops.shape(losses)[0], losses.dtype)


class CrossEntropy(keras.losses.Loss):
    """The mean of `cross_entropies` over a batch."""

    def __init__(self, auxiliary_weights: tuple[float, ...]) -> None:
        super().__init__(name="cross_entropy")
        self._auxiliary_weights = auxiliary_weights

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the loss of each sample."""
        return cross_entropies(y_true, y_pred, self._auxiliary_weights)


class StepLosses(keras.metrics.Metric):
    """Stores the loss of every step on the device, to be read once per epoch, and counts steps and samples.

    Keras itself reports the running mean, from which single losses can't be recovered to all digits. A callback that
    reads each loss would make the host wait in every step.
    """

    def __init__(self, steps: int, auxiliary_weights: tuple[float, ...]) -> None:
        super().__init__(name="step_losses")
        self._steps, self._auxiliary_weights = steps, auxiliary_weights
        self.losses = self.add_variable(
            shape=(steps,), initializer=np.zeros, dtype=keras.config.floatx(), name="losses"
        )
        self.step, self.samples = (  # "int" is int64 on TensorFlow, which keeps int32 variables off the GPU
            self.add_variable(shape=(), initializer=np.zeros, dtype="int", name=name) for name in ("step", "samples")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Store the loss of one batch. A sample without weight is not counted."""
        loss = mean_cross_entropy(y_true, y_pred, self._auxiliary_weights, sample_weight)
        # The remainder matters only in the dry run that Keras on torch does first, on uninitialised memory.
        position = ops.reshape(self.step % self._steps, (1, 1))
        self.losses.assign(ops.scatter_update(self.losses, position, ops.reshape(loss, (1,))))
        self.step.assign(self.step + 1)
        samples = ops.shape(y_pred)[0] if sample_weight is None else ops.count_nonzero(sample_weight)
        self.samples.assign(self.samples + ops.cast(samples, "int"))

    def result(self) -> Any:
        """Return the loss of the epoch's last step, or 0 before it; it is never shown, because there is no progress
        bar.

        The index is fixed, because Keras calls this in every step, and torch would wait for the GPU to read an index
        there.
        """
        return self.losses[-1]
