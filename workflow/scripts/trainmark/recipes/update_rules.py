"""The update rules in numpy. Adapters are tested against them, step by step.

Each function returns the updated weight and changes `state` in place. In formulas w is the weight, g the gradient, lr
the learning rate and t the step, counted from 1.
"""

from collections.abc import Callable, Mapping
from functools import wraps

import numpy as np

State = dict[str, np.ndarray]


def sgd(weight: np.ndarray, gradient: np.ndarray, state: State, step: int, learning_rate: float) -> np.ndarray:
    """Apply plain stochastic gradient descent: w - lr g."""
    return weight - learning_rate * gradient


def momentum_sgd(
    weight: np.ndarray, gradient: np.ndarray, state: State, step: int, learning_rate: float, momentum: float
) -> np.ndarray:
    """Apply stochastic gradient descent with momentum in Chainer's form: v = momentum v - lr g; w + v."""
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
    """Apply Adam in the form at the end of section 2 of Kingma and Ba 2015: epsilon beside the uncorrected sqrt(v)."""
    first, second = state.get("first", 0.0), state.get("second", 0.0)
    state["first"] = first + (1 - beta_1) * (gradient - first)
    state["second"] = second + (1 - beta_2) * (gradient**2 - second)
    rate: float = learning_rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
    return weight - rate * state["first"] / (np.sqrt(state["second"]) + epsilon)


@wraps(adam, assigned=())  # for the signature: it takes the same arguments as adam
def adam_algorithm_1(
    weight: np.ndarray, gradient: np.ndarray, state: State, step: int, beta_2: float, epsilon: float, **others: float
) -> np.ndarray:
    """Apply Adam in the form of algorithm 1 of Kingma and Ba 2015, as in Flux: epsilon is added to the corrected root.

    This equals `adam` with a growing epsilon, sqrt(1 - beta_2^t) epsilon, which starts at .03 epsilon if beta_2 is
    .999.
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
    """Apply RMSprop (Tieleman and Hinton 2012) with epsilon outside the root, as in Keras of 2017 and in Chainer."""
    state["square"] = rho * state.get("square", 0.0) + (1 - rho) * gradient**2
    return weight - learning_rate * gradient / (np.sqrt(state["square"]) + epsilon)


def rmsprop_warmup(
    weight: np.ndarray,
    gradient: np.ndarray,
    state: State,
    step: int,
    learning_rate: float,
    momentum: float,
    rho: float,
    epsilon: float,
    sgd_share: float,
    rmsprop_share: float,
) -> np.ndarray:
    """Apply momentum SGD and RMSprop at once, mixed by their shares: w + lr (v - rmsprop_share g / (sqrt(ms) + eps)).

    Here v = momentum v - sgd_share g and ms = rho ms + (1 - rho) g^2. The shares change from epoch to epoch (see
    schedules.epoch_rates). This is the warm-up of Akiba et al. 2017 (arXiv 1711.04325) as in the ImageNet example for
    TSUBAME: RMSprop's part has no momentum there. In the paper, momentum applies to both parts.
    """
    state["square"] = rho * state.get("square", 0.0) + (1 - rho) * gradient**2
    state["velocity"] = momentum * state.get("velocity", 0.0) - sgd_share * gradient
    rmsprop_part = rmsprop_share * gradient / (np.sqrt(state["square"]) + epsilon)
    return weight + learning_rate * (state["velocity"] - rmsprop_part)


UPDATE_RULES: Mapping[str, Callable[..., np.ndarray]] = {
    "sgd": sgd,
    "momentum_sgd": momentum_sgd,
    "adam": adam,
    "adam_algorithm_1": adam_algorithm_1,
    "rmsprop": rmsprop,
    "rmsprop_warmup": rmsprop_warmup,
}

SLOTS: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum_sgd": ("velocity",),
    "adam": ("first", "second"),
    "adam_algorithm_1": ("first", "second"),
    "rmsprop": ("square",),
    "rmsprop_warmup": ("square", "velocity"),
}
"""The arrays that a rule keeps for each weight, by rule: the keys of its `state`. Adapters list their own so."""
