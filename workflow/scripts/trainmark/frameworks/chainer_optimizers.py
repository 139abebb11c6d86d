"""The update rules for Chainer: its own optimizers, and two that it lacks."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from trainmark.frameworks.chainer_layers import chainer
from trainmark.recipes.recipe import Rates


class AdamAlgorithm1Rule(chainer.optimizers.adam.AdamRule):
    """Adam with epsilon added to the corrected root (update_rules.adam_algorithm_1); Chainer has the uncorrected."""

    def update_core(self, param: chainer.Parameter) -> None:
        """Update one parameter. The optimizer's epsilon is multiplied by the root's correction of the step."""
        self.hyperparam.eps = self.hyperparam.parent.eps * math.sqrt(1 - self.hyperparam.beta2**self.t)
        super().update_core(param)


class AdamAlgorithm1(chainer.optimizers.Adam):
    """The optimizer with that rule."""

    def create_update_rule(self) -> AdamAlgorithm1Rule:
        return AdamAlgorithm1Rule(self.hyperparam)


class RMSpropWarmupRule(chainer.optimizer.UpdateRule):
    """Momentum SGD and RMSprop at once (update_rules.rmsprop_warmup)."""

    is_elementwise = True

    def init_state(self, param: chainer.Parameter) -> None:
        """Create the mean square and the velocity."""
        with chainer.using_device(param.device):
            self.state.update({name: param.device.xp.zeros_like(param.array) for name in ("ms", "v")})

    def update_core_cpu(self, param: chainer.Parameter) -> None:
        constants, gradient, square, velocity = self.hyperparam, param.grad, self.state["ms"], self.state["v"]
        square *= constants.rho
        square += (1 - constants.rho) * gradient * gradient
        velocity *= constants.momentum
        velocity -= constants.sgd_share * gradient
        rmsprop_part = constants.rmsprop_share * gradient / (np.sqrt(square) + constants.epsilon)
        param.array += constants.lr * (velocity - rmsprop_part)

    def update_core_gpu(self, param: chainer.Parameter) -> None:
        constants = self.hyperparam
        kernel = chainer.backends.cuda.elementwise(
            "T grad, T lr, T momentum, T rho, T eps, T sgd_share, T rmsprop_share",
            "T param, T ms, T v",
            """ms = rho * ms + (1 - rho) * grad * grad;
               v = momentum * v - sgd_share * grad;
               param += lr * (v - rmsprop_share * grad / (sqrt(ms) + eps));""",
            "rmsprop_warmup",
        )
        kernel(
            param.grad, constants.lr, constants.momentum, constants.rho, constants.epsilon, constants.sgd_share,
            constants.rmsprop_share, param.array, self.state["ms"], self.state["v"],
        )  # fmt: skip


class RMSpropWarmup(chainer.optimizer.GradientMethod):
    """The optimizer with that rule."""

    def __init__(self, learning_rate: float, **constants: float) -> None:
        super().__init__()
        for name, value in {"lr": learning_rate, **constants}.items():
            setattr(self.hyperparam, name, value)

    def create_update_rule(self) -> RMSpropWarmupRule:
        return RMSpropWarmupRule(self.hyperparam)


def _adam(kind: type, learning_rate: float, beta_1: float, beta_2: float, epsilon: float) -> chainer.Optimizer:
    return kind(alpha=learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon)


OPTIMIZERS: Mapping[str, Callable[..., chainer.Optimizer]] = {
    "sgd": lambda learning_rate: chainer.optimizers.SGD(lr=learning_rate),
    "momentum_sgd": lambda learning_rate, momentum: chainer.optimizers.MomentumSGD(lr=learning_rate, momentum=momentum),
    "adam": lambda **constants: _adam(chainer.optimizers.Adam, **constants),
    "adam_algorithm_1": lambda **constants: _adam(AdamAlgorithm1, **constants),
    "rmsprop": lambda learning_rate, rho, epsilon: chainer.optimizers.RMSprop(lr=learning_rate, alpha=rho, eps=epsilon),
    "rmsprop_warmup": RMSpropWarmup,
}
"""Functions that return Chainer's optimizer from the constants of an update rule, by rule."""

STATES: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum_sgd": ("v",),
    "adam": ("m", "v"),
    "adam_algorithm_1": ("m", "v"),
    "rmsprop": ("ms",),
    "rmsprop_warmup": ("ms", "v"),
}
"""Chainer's names of the arrays of update_rules.SLOTS, by rule."""


def set_rates(optimizer: chainer.Optimizer, rates: Rates) -> None:
    """Give the constants of an epoch to an optimizer: the learning rate, and the shares of rmsprop_warmup."""
    # Told by its constants, not by its class: the optimizer of several workers is a wrapper of ChainerMN's.
    learning_rate = "lr" if "lr" in optimizer.hyperparam.get_dict() else "alpha"
    for name, value in rates:
        setattr(optimizer.hyperparam, learning_rate if name == "learning_rate" else name, value)
