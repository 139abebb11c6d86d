"""The update rules for Chainer: its own optimizers, and the form of Adam that it lacks."""

import math
from collections.abc import Callable, Mapping

from trainmark.frameworks.chainer_layers import chainer


class AdamAlgorithm1Rule(chainer.optimizers.adam.AdamRule):
    """Adam with epsilon added to the corrected root (update_rules.adam_algorithm_1); Chainer has the uncorrected."""

    def update_core(self, param: chainer.Parameter) -> None:
        """Update one parameter. The optimizer's epsilon is multiplied by the root's correction of the step."""
        self.hyperparam.eps = self.hyperparam.parent.eps * math.sqrt(1 - self.hyperparam.beta2**self.t)
        super().update_core(param)


class AdamAlgorithm1(chainer.optimizers.Adam):
    """The optimizer with that rule."""

    def create_update_rule(self) -> AdamAlgorithm1Rule:
        """Return the rule of one parameter."""
        return AdamAlgorithm1Rule(self.hyperparam)


def _adam(kind: type, learning_rate: float, beta_1: float, beta_2: float, epsilon: float) -> chainer.Optimizer:
    return kind(alpha=learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon)


OPTIMIZERS: Mapping[str, Callable[..., chainer.Optimizer]] = {
    "sgd": lambda learning_rate: chainer.optimizers.SGD(lr=learning_rate),
    "momentum_sgd": lambda learning_rate, momentum: chainer.optimizers.MomentumSGD(lr=learning_rate, momentum=momentum),
    "adam": lambda **constants: _adam(chainer.optimizers.Adam, **constants),
    "adam_algorithm_1": lambda **constants: _adam(AdamAlgorithm1, **constants),
    "rmsprop": lambda learning_rate, rho, epsilon: chainer.optimizers.RMSprop(lr=learning_rate, alpha=rho, eps=epsilon),
}
"""Functions that return Chainer's optimizer from the constants of an update rule, by rule."""
