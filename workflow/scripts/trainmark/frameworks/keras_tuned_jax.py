"""The tuned loop of Keras on JAX: steps without Keras's `fit`, which update their state in place."""

from collections.abc import Collection
from typing import Any

import jax
import keras
import numpy as np

from trainmark.frameworks.jax_kernels import compiled, fetched
from trainmark.frameworks.keras_losses import mean_cross_entropy


class JaxPrograms:
    """The compiled training of a network, which changes the model's and the optimizer's variables.

    `keras_tuned_tensorflow` has the same methods.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        auxiliary_weights: tuple,
        steps: Collection[str],
    ) -> None:
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

        self._step, self._epoch = compiled(step)

    def compile_loop(self, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> None:
        """Compile what `loop` needs for arrays of these shapes."""
        self._epoch(self._state, batches, last, arrays)

    def loop(self, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> Any:
        """Train a step for each of the batches, and one for `last` if it is not empty; return their losses, (steps,).

        batches: sample indices (steps, batch size). last: those of a smaller batch. arrays: what `send` returned.
        """
        program = self._epoch(self._state, batches, last, arrays)
        self._state, losses = program(self._state, batches, last, arrays)
        return losses

    def step(self, inputs: Any, labels: Any) -> Any:
        self._state, loss = self._step(self._state, inputs, labels)
        return loss

    def stack(self, losses: list) -> np.ndarray:
        return fetched(losses)

    def send(self, inputs: np.ndarray, labels: np.ndarray) -> tuple:
        """Return arrays on the device, once they are there: otherwise the next phase would wait for them."""
        return jax.block_until_ready(jax.device_put((inputs, labels)))

    def begin(self) -> None:
        """Take the state from the variables, before the first step of an epoch."""
        self._state = tuple([variable.value for variable in variables] for variables in self._variables)

    def finish(self) -> None:
        """Write the state back into the variables, after the last step."""
        for variables, values in zip(self._variables, self._state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        self._state = ()
