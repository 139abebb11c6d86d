"""The update rules for Keras. Where Keras's own differs from `optimizers`, or loses digits, it is written out here."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


def _whole(gradient: Any, variable: Any) -> Any:
    """The gradient as one array of the variable's shape.

    TensorFlow gives that of embeddings as the rows that were looked up, one a token; Keras's own rules square each of
    them before the rows of the same token are added up. To reshape them makes them an array.
    """
    return ops.reshape(gradient, variable.shape)


class Adam(keras.optimizers.Adam):
    """Adam (optimizers.adam) with bias corrections that keep their digits.

    Keras takes 1 - beta_2**t in the weights' precision: in float32 the first steps' corrections are off by 1e-5 (.999
    is stored as .99900001), and two frameworks part that would else agree to rounding.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """One update of one variable."""
        gradient = _whole(gradient, variable)
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
        """What is added to the root of the uncorrected second moment."""
        return self.epsilon


class AdamAlgorithm1(Adam):
    """Adam with epsilon beside the corrected root (optimizers.adam_algorithm_1); Keras's is beside the uncorrected."""

    def epsilon_beside_root(self, second_correction: Any) -> Any:
        """Epsilon with the root's correction of the step."""
        return self.epsilon * ops.sqrt(second_correction)


class RMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside the root (optimizers.rmsprop); Keras 3 has it inside."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """One update of one variable."""
        gradient = _whole(gradient, variable)
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self._velocities[self._get_variable_index(variable)]
        self.assign(velocity, self.rho * velocity + (1 - self.rho) * ops.square(gradient))
        self.assign_sub(variable, rate * gradient / (ops.sqrt(velocity) + self.epsilon))


class MomentumSGD(keras.optimizers.SGD):
    """SGD with momentum (optimizers.momentum_sgd); Keras on TensorFlow takes the momentum in float32."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """One update of one variable."""
        gradient = _whole(gradient, variable)
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self.momentums[self._get_variable_index(variable)]
        self.assign(velocity, self.momentum * velocity - rate * gradient)
        self.assign_add(variable, velocity)


OPTIMIZERS = {
    "sgd": keras.optimizers.SGD,
    "momentum_sgd": MomentumSGD,
    "adam": Adam,
    "adam_algorithm_1": AdamAlgorithm1,
    "rmsprop": RMSprop,
}


class _KeepsGradients(keras.optimizers.Optimizer):
    """What an optimizer needs more to keep the last step's gradients: mixed into one of OPTIMIZERS."""

    def build(self, variables: Sequence[Any]) -> None:
        """Make room beside the optimizer's own state."""
        super().build(variables)
        self.kept = [self.add_variable_from_reference(variable, name="gradient") for variable in variables]

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Keep the gradients, then update."""
        for kept, gradient in zip(self.kept, grads, strict=True):
            kept.assign(_whole(gradient, kept))
        super().apply(grads, trainable_variables)


def create_optimizer(rule: str, keeps_gradients: bool, **constants: float) -> keras.optimizers.Optimizer:
    """The optimizer of an update rule; with `keeps_gradients`, its `kept` holds those of the last step."""
    optimizer = OPTIMIZERS[rule]
    if keeps_gradients:
        optimizer = type(optimizer.__name__, (_KeepsGradients, optimizer), {})
    return optimizer(**constants)
