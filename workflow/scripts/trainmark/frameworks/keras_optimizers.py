"""The update rules for Keras. Rules in which Keras differs from `update_rules` or loses digits are written out here."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from trainmark.recipes.recipe import Rates


def _as_dense(gradient: Any, variable: Any) -> Any:
    """Return the gradient as one array of the variable's shape.

    TensorFlow returns the gradient of embeddings as the rows that were looked up, one per token. Keras's own rules
    square each row before the rows of the same token are added. Reshaping converts them to an array.
    """
    return ops.reshape(gradient, variable.shape)


class Adam(keras.optimizers.Adam):
    """Adam (update_rules.adam) with bias corrections that keep all digits.

    Keras computes 1 - beta_2**t in the precision of the weights. In float32 the corrections of the first steps are
    wrong by 1e-5 (.999 is stored as .99900001), so that frameworks diverge that would otherwise agree up to rounding.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = _as_dense(gradient, variable)
        step = ops.cast(self.iterations + 1, variable.dtype)
        first_correction = -ops.expm1(step * math.log(self.beta_1))
        second_correction = -ops.expm1(step * math.log(self.beta_2))
        rate = ops.cast(learning_rate, variable.dtype) * ops.sqrt(second_correction) / first_correction
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        self.assign_add(first, (gradient - first) * (1 - self.beta_1))
        self.assign_add(second, (ops.square(gradient) - second) * (1 - self.beta_2))
        self.assign_sub(variable, first * rate / (ops.sqrt(second) + self.epsilon_beside_root(second_correction)))

    def epsilon_beside_root(self, second_correction: Any) -> Any:
        """Return the value to add to the root of the uncorrected second moment."""
        return self.epsilon


class AdamAlgorithm1(Adam):
    """Adam with epsilon added to the corrected root (update_rules.adam_algorithm_1); Keras has the uncorrected."""

    def epsilon_beside_root(self, second_correction: Any) -> Any:
        """Return epsilon times the root's correction of the step."""
        return self.epsilon * ops.sqrt(second_correction)


class RMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside the root (update_rules.rmsprop); Keras 3 has it inside."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = _as_dense(gradient, variable)
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self._velocities[self._get_variable_index(variable)]
        self.assign(velocity, self.rho * velocity + (1 - self.rho) * ops.square(gradient))
        self.assign_sub(variable, rate * gradient / (ops.sqrt(velocity) + self.epsilon))


class MomentumSGD(keras.optimizers.SGD):
    """SGD with momentum (update_rules.momentum_sgd); Keras on TensorFlow computes the momentum in float32."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = _as_dense(gradient, variable)
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self.momentums[self._get_variable_index(variable)]
        self.assign(velocity, self.momentum * velocity - rate * gradient)
        self.assign_add(variable, velocity)


class RMSpropWarmup(keras.optimizers.Optimizer):
    """Momentum SGD and RMSprop at once (update_rules.rmsprop_warmup); Keras has none."""

    def __init__(
        self,
        learning_rate: float,
        momentum: float,
        rho: float,
        epsilon: float,
        sgd_share: float,
        rmsprop_share: float,
    ) -> None:
        super().__init__(learning_rate)
        self.momentum, self.rho, self.epsilon = momentum, rho, epsilon
        # Variables, like the learning rate, so that the compiled step reads new values.
        self.sgd_share = self.add_variable((), name="sgd_share")
        self.rmsprop_share = self.add_variable((), name="rmsprop_share")
        # Assigned, because on TensorFlow an initializer rounds the value to float32.
        set_rates(self, (("sgd_share", sgd_share), ("rmsprop_share", rmsprop_share)))

    def build(self, variables: Sequence[Any]) -> None:
        """Add a mean square and a velocity for each variable."""
        super().build(variables)
        self.squares = self.add_optimizer_variables(variables, "square")
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = _as_dense(gradient, variable)
        rates = (learning_rate, self.sgd_share, self.rmsprop_share)
        rate, sgd_share, rmsprop_share = (ops.cast(value, variable.dtype) for value in rates)
        index = self._get_variable_index(variable)
        square, velocity = self.squares[index], self.velocities[index]
        self.assign(square, self.rho * square + (1 - self.rho) * ops.square(gradient))
        self.assign(velocity, self.momentum * velocity - sgd_share * gradient)
        self.assign_add(variable, rate * (velocity - rmsprop_share * gradient / (ops.sqrt(square) + self.epsilon)))


OPTIMIZERS = {
    "sgd": keras.optimizers.SGD,
    "momentum_sgd": MomentumSGD,
    "adam": Adam,
    "adam_algorithm_1": AdamAlgorithm1,
    "rmsprop": RMSprop,
    "rmsprop_warmup": RMSpropWarmup,
}


STATES = {
    "sgd": (),
    "momentum_sgd": ("momentums",),
    "adam": ("_momentums", "_velocities"),
    "adam_algorithm_1": ("_momentums", "_velocities"),
    "rmsprop": ("_velocities",),
    "rmsprop_warmup": ("squares", "velocities"),
}
"""The optimizer's attributes with the arrays of update_rules.SLOTS, by rule."""


class _StartsFromNumpy(keras.optimizers.Optimizer):
    """A mixin for one of OPTIMIZERS whose variables start from numpy's zeros: on JAX, Keras's own are compiled."""

    def add_variable_from_reference(self, reference_variable: Any, name: Any = None, initializer: Any = "zeros") -> Any:
        """Add a variable of the shape of another one."""
        return super().add_variable_from_reference(
            reference_variable, name, np.zeros if initializer == "zeros" else initializer
        )


class _StoresGradients(keras.optimizers.Optimizer):
    """A mixin for one of OPTIMIZERS that stores the gradients of the last step."""

    def build(self, variables: Sequence[Any]) -> None:
        """Add variables for the gradients to the optimizer's own state."""
        super().build(variables)
        self.last_gradients = [self.add_variable_from_reference(variable, name="gradient") for variable in variables]

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Store the gradients, then update."""
        for stored, gradient in zip(self.last_gradients, grads, strict=True):
            stored.assign(_as_dense(gradient, stored))
        super().apply(grads, trainable_variables)


def create_optimizer(rule: str, stores_gradients: bool, **constants: float) -> keras.optimizers.Optimizer:
    """Return the optimizer of an update rule.

    stores_gradients: whether `last_gradients` of the optimizer contains the gradients of the last step.
    """
    optimizer = OPTIMIZERS[rule]
    mixins = (_StoresGradients, _StartsFromNumpy) if stores_gradients else (_StartsFromNumpy,)
    return type(optimizer.__name__, (*mixins, optimizer), {})(**constants)


def set_rates(optimizer: keras.optimizers.Optimizer, rates: Rates) -> None:
    """Give the constants of an epoch to an optimizer: the learning rate, and the shares of rmsprop_warmup.

    They are variables of the optimizer, so that nothing is compiled again.
    """
    for name, value in rates:
        getattr(optimizer, name).assign(value)
