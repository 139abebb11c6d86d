"""The update rules, in numpy: what every adapter's optimizer must do, step by step.

g is the gradient, t the step counted from 1. The adapters are tested against these functions.
"""

from collections.abc import Callable, Mapping
from functools import wraps

import numpy as np

State = dict[str, np.ndarray]


def sgd(weight: np.ndarray, gradient: np.ndarray, state: State, step: int, learning_rate: float) -> np.ndarray:
    """Plain stochastic gradient descent: w - lr g."""
    return weight - learning_rate * gradient


def momentum_sgd(
    weight: np.ndarray, gradient: np.ndarray, state: State, step: int, learning_rate: float, momentum: float
) -> np.ndarray:
    """Stochastic gradient descent with momentum in Chainer's form: v = momentum v - lr g; w + v."""
    state["velocity"] = momentum * state.get("velocity", 0.0) - learning_rate * gradient
    return weight + state["velocity"]


def adam(
    weight: np.ndarray,
    gradient: np.ndarray,
    state: State,
    step: int,
    learning_rate: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> np.ndarray:
    """Adam in the form of the end of section 2 of Kingma and Ba 2015 (epsilon added to sqrt(v), uncorrected)."""
    first, second = state.get("first", 0.0), state.get("second", 0.0)
    state["first"] = first + (1 - beta_1) * (gradient - first)
    state["second"] = second + (1 - beta_2) * (gradient**2 - second)
    rate: float = learning_rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
    return weight - rate * state["first"] / (np.sqrt(state["second"]) + epsilon)


@wraps(adam, assigned=())  # it takes what adam takes
def adam_algorithm_1(
    weight: np.ndarray, gradient: np.ndarray, state: State, step: int, beta_2: float, epsilon: float, **others: float
) -> np.ndarray:
    """Adam in the form of algorithm 1 of Kingma and Ba 2015 (epsilon added to the corrected root), as Flux has it.

    It is the other form with an epsilon that grows: sqrt(1 - beta_2^t) epsilon, from .03 of it with the usual beta_2.
    """
    corrected = epsilon * np.sqrt(1 - beta_2**step)
    return adam(weight, gradient, state, step, beta_2=beta_2, epsilon=corrected, **others)


def rmsprop(
    weight: np.ndarray,
    gradient: np.ndarray,
    state: State,
    step: int,
    learning_rate: float,
    rho: float,
    epsilon: float,
) -> np.ndarray:
    """RMSprop (Tieleman and Hinton 2012) with epsilon outside the root, as Keras had it in 2017 and Chainer has it."""
    state["square"] = rho * state.get("square", 0.0) + (1 - rho) * gradient**2
    return weight - learning_rate * gradient / (np.sqrt(state["square"]) + epsilon)


UPDATE_RULES: Mapping[str, Callable[..., np.ndarray]] = {
    "sgd": sgd,
    "momentum_sgd": momentum_sgd,
    "adam": adam,
    "adam_algorithm_1": adam_algorithm_1,
    "rmsprop": rmsprop,
}
