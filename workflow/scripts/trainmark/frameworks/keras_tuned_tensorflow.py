"""The tuned loop of Keras on TensorFlow: an epoch is a loop of the graph, compiled with XLA where that is faster."""

from collections.abc import Collection
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainmark.frameworks.keras_losses import mean_cross_entropy


class TensorFlowPrograms:
    """See `keras_tuned_jax.JaxPrograms`."""

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        auxiliary_weights: tuple,
        steps: Collection[str],
    ) -> None:
        def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = mean_cross_entropy(labels, model(inputs, training=True), auxiliary_weights)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        def loop(batches: tf.Tensor, last: tf.Tensor, count: tf.Tensor, inputs: tf.Tensor, labels: tf.Tensor) -> Any:
            def body(i: tf.Tensor, losses: tf.Tensor) -> tuple:
                loss = step(tf.gather(inputs, batches[i]), tf.gather(labels, batches[i]))
                return i + 1, tf.tensor_scatter_nd_update(losses, [[i]], [loss])

            losses = tf.zeros(batches.shape[0], keras.config.floatx())
            _, losses = tf.while_loop(lambda i, losses: i < count, body, (0, losses), parallel_iterations=1)
            if last.shape[0]:
                loss = step(tf.gather(inputs, last), tf.gather(labels, last))
                losses = tf.concat([losses, [loss]], 0)
            return losses

        compiled = {"autograph": False, "jit_compile": "xla" in steps}
        self._step, self._loop = tf.function(step, **compiled), tf.function(loop, **compiled)

    def compile_loop(self, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> None:
        """See `JaxPrograms`. TensorFlow compiles at a first call alone, which takes any number of steps: one.

        The number is therefore no part of the program, as it is on JAX.
        """
        self._first_steps(1, batches, last, arrays)

    def loop(self, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> Any:
        return self._first_steps(len(batches), batches, last, arrays)

    def _first_steps(self, count: int, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> Any:
        return self._loop(tf.constant(batches), tf.constant(last), tf.constant(count), *arrays)

    def step(self, inputs: Any, labels: Any) -> Any:
        return self._step(tf.convert_to_tensor(inputs), tf.convert_to_tensor(labels))

    def stack(self, losses: list) -> tf.Tensor:
        return tf.stack(losses)

    def send(self, inputs: np.ndarray, labels: np.ndarray) -> tuple:
        return tf.constant(inputs), tf.constant(labels)

    def begin(self) -> None:
        """Do nothing: the graph changes the variables themselves."""

    def finish(self) -> None:
        """Do nothing: the graph changes the variables themselves."""
