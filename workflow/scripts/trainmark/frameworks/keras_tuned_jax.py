"""The tuned loop of Keras on JAX: steps without Keras's `fit`, which updates their state in place."""

from typing import Any

import jax
import keras
import numpy as np

from trainmark.frameworks.keras_losses import mean_cross_entropy


class JaxPrograms:
    """See `keras_tuned.Programs`."""

    def __init__(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, auxiliary_weights: tuple, fused: bool
    ) -> None:
        self.loops = fused
        self._variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self._state: tuple = ()

        def loss(trained: list, others: list, inputs: Any, labels: Any) -> tuple:
            outputs, others = model.stateless_call(trained, others, inputs, training=True)
            return mean_cross_entropy(labels, outputs, auxiliary_weights), others

        differentiated = jax.value_and_grad(loss, has_aux=True)

        def step(state: tuple, inputs: Any, labels: Any) -> tuple:
            trained, others, constants = state
            (value, others), gradients = differentiated(trained, others, inputs, labels)
            trained, constants = optimizer.stateless_apply(constants, gradients, trained)
            return (trained, others, constants), value

        def loop(state: tuple, batches: Any, last: Any, count: Any, arrays: tuple) -> tuple:
            inputs, labels = arrays

            def body(i: Any, carried: tuple) -> tuple:
                state, losses = carried
                state, value = step(state, inputs[batches[i]], labels[batches[i]])
                return state, losses.at[i].set(value)

            losses = jax.numpy.zeros(len(batches), keras.config.floatx())
            state, losses = jax.lax.fori_loop(0, count, body, (state, losses))
            if len(last):
                state, value = step(state, inputs[last], labels[last])
                losses = jax.numpy.append(losses, value)
            return state, losses

        self._step, self._loop = (jax.jit(function, donate_argnums=0) for function in (step, loop))

    def loop(self, batches: np.ndarray, last: np.ndarray, count: int, arrays: tuple) -> Any:
        """See `keras_tuned.Programs`."""
        self._state, losses = self._loop(self._state, batches, last, count, arrays)
        return losses

    def step(self, inputs: Any, labels: Any) -> Any:
        """See `keras_tuned.Programs`."""
        self._state, loss = self._step(self._state, inputs, labels)
        return loss

    def send(self, inputs: np.ndarray, labels: np.ndarray) -> tuple:
        """See `keras_tuned.Programs`."""
        return jax.device_put((inputs, labels))

    def begin(self) -> None:
        """See `keras_tuned.Programs`."""
        self._state = tuple([variable.value for variable in variables] for variables in self._variables)

    def finish(self) -> None:
        """See `keras_tuned.Programs`."""
        for variables, values in zip(self._variables, self._state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        self._state = ()
