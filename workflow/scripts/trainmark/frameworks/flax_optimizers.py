"""The update rules with optax. Rules that optax lacks, or in which it loses digits, are written out here."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from flax import nnx

from trainmark.recipes.recipe import Rates


def _momentum_sgd(learning_rate: Any, momentum: float) -> optax.GradientTransformation:
    """Momentum SGD (update_rules.momentum_sgd). In optax.sgd the velocity is without the learning rate."""
    return optax.chain(optax.scale_by_learning_rate(learning_rate), optax.trace(momentum))


def _scale_by_adam(beta_1: float, beta_2: float, epsilon: float, corrected: bool) -> optax.GradientTransformation:
    """Scale by Adam (update_rules.adam) with bias corrections that keep all digits.

    optax computes 1 - beta_2**t in the precision of the weights. In float32 the corrections of the first steps are
    wrong by 1e-5 (.999 is stored as .99900001), so that frameworks diverge that would otherwise agree up to rounding.

    corrected: add epsilon to the corrected root (update_rules.adam_algorithm_1), as optax does.
    """

    def init(weights: Any) -> optax.ScaleByAdamState:
        zeros = optax.tree.zeros_like(weights)
        return optax.ScaleByAdamState(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradients: Any, state: optax.ScaleByAdamState, weights: Any = None) -> tuple[Any, Any]:
        step = state.count + 1
        first = jax.tree.map(lambda mean, g: mean + (1 - beta_1) * (g - mean), state.mu, gradients)
        second = jax.tree.map(lambda mean, g: mean + (1 - beta_2) * (g * g - mean), state.nu, gradients)

        def scaled(first: jax.Array, second: jax.Array) -> jax.Array:
            corrections = [-jnp.expm1(step.astype(first.dtype) * math.log(beta)) for beta in (beta_1, beta_2)]
            root = jnp.sqrt(corrections[1])
            return first * (root / corrections[0]) / (jnp.sqrt(second) + epsilon * (root if corrected else 1))

        return jax.tree.map(scaled, first, second), optax.ScaleByAdamState(step, first, second)

    return optax.GradientTransformation(init, update)


def _adam(
    learning_rate: Any, beta_1: float, beta_2: float, epsilon: float, corrected: bool = False
) -> optax.GradientTransformation:
    return optax.chain(_scale_by_adam(beta_1, beta_2, epsilon, corrected), optax.scale_by_learning_rate(learning_rate))


def _rmsprop(learning_rate: Any, rho: float, epsilon: float) -> optax.GradientTransformation:
    """RMSprop with epsilon outside the root (update_rules.rmsprop)."""
    return optax.rmsprop(learning_rate, rho, epsilon, eps_in_sqrt=False)


def _rmsprop_warmup(
    learning_rate: Any, momentum: float, rho: float, epsilon: float, sgd_share: Any, rmsprop_share: Any
) -> optax.GradientTransformation:
    """Momentum SGD and RMSprop at once (update_rules.rmsprop_warmup); optax has none."""
    parts = (
        _momentum_sgd(sgd_share, momentum),
        optax.chain(optax.scale_by_rms(rho, epsilon, eps_in_sqrt=False), optax.scale_by_learning_rate(rmsprop_share)),
    )

    def init(weights: Any) -> tuple:
        return tuple(part.init(weights) for part in parts)

    def update(gradients: Any, states: tuple, weights: Any = None) -> tuple[Any, tuple]:
        (sgd, sgd_state), (rmsprop, rmsprop_state) = (
            part.update(gradients, state, weights) for part, state in zip(parts, states, strict=True)
        )
        updates = jax.tree.map(lambda one, other: learning_rate * (one + other), sgd, rmsprop)
        return updates, (sgd_state, rmsprop_state)

    return optax.GradientTransformation(init, update)


OPTIMIZERS = {
    "sgd": optax.sgd,
    "momentum_sgd": _momentum_sgd,
    "adam": _adam,
    "adam_algorithm_1": partial(_adam, corrected=True),
    "rmsprop": _rmsprop,
    "rmsprop_warmup": _rmsprop_warmup,
}

STATES: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum_sgd": ("trace",),
    "adam": ("mu", "nu"),
    "adam_algorithm_1": ("mu", "nu"),
    "rmsprop": ("nu",),
    "rmsprop_warmup": ("nu", "trace"),
}
"""optax's names of the arrays of update_rules.SLOTS, by rule."""

RATES = ("learning_rate", "sgd_share", "rmsprop_share")
"""Constants that change between epochs. They are part of the state, so that nothing is compiled again."""


def _stored_gradients() -> optax.GradientTransformation:
    """Store the gradients of the last step, and leave them as they are."""
    return optax.GradientTransformation(
        optax.tree.zeros_like, lambda gradients, state, weights=None: (gradients, gradients)
    )


def create_rule(rule: str, stores_gradients: bool, **constants: float) -> optax.GradientTransformation:
    """Return an update rule. RATES are part of its state.

    stores_gradients: whether `last_gradients` returns the gradients of the last step.
    """
    fixed = [name for name in constants if name not in RATES]
    updates = optax.inject_hyperparams(OPTIMIZERS[rule], static_args=fixed)(**constants)
    return optax.chain(*([_stored_gradients()] if stores_gradients else []), updates)


def last_gradients(optimizer: nnx.Optimizer) -> nnx.State:
    """Return the stored gradients of the last step."""
    return optimizer.opt_state[0]


def set_rates(optimizer: nnx.Optimizer, rates: Rates) -> None:
    """Give the constants of an epoch to an optimizer: the learning rate, and the shares of rmsprop_warmup."""
    variables = optimizer.opt_state[-1].hyperparams
    for name, value in rates:
        variables[name].set_value(jax.device_put(np.asarray(value, variables[name].dtype)))
