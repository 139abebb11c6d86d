"""The update rules for torch: its own optimizers, and those in which it differs from `update_rules`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from trainmark.recipes.recipe import Rates


class Counted(torch.optim.Optimizer):
    """A mixin that counts the updates.

    updates: their number, int64, () on the CPU; on the GPU if steps are captured as a CUDA graph, which then counts.
    states: names of the arrays that the rule has for each weight, in the order of update_rules.SLOTS.
    """

    states: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **constants: Any) -> None:
        super().__init__(*arguments, **constants)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.updates += 1

    def begin(self) -> None:
        """Set the state to that before the first update, with all arrays: torch makes them in the first update."""
        for parameter in self._parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.step()
        self.zero_grad()
        for array in self.arrays().values():
            array.zero_()

    def arrays(self) -> dict[str, torch.Tensor]:
        """Return the arrays of the state themselves, the number of updates included."""
        of_parameters = {
            f"{place}.{name}": value
            for place, parameter in enumerate(self._parameters())
            for name, value in self.state[parameter].items()
            if isinstance(value, torch.Tensor)
        }
        return {"updates": self.updates, **of_parameters}

    def set_updates(self, updates: int) -> None:
        """Go on as after so many updates."""
        self.updates.fill_(updates)
        for state in self.state.values():
            if "step" in state:
                state["step"].fill_(updates)

    def _parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


class SGD(Counted, torch.optim.SGD):
    """torch's own, counted."""


class RMSprop(Counted, torch.optim.RMSprop):
    """torch's own, counted."""

    states = ("square_avg",)


class AdamAlgorithm1(Counted, torch.optim.Adam):
    """torch's own, counted: epsilon is added to the corrected root (update_rules.adam_algorithm_1)."""

    states = ("exp_avg", "exp_avg_sq")


class Adam(AdamAlgorithm1):
    """Adam with epsilon added to the uncorrected root (update_rules.adam).

    torch's own Adam computes it with another epsilon in each step: epsilon over the root's correction.
    """

    def __init__(self, *arguments: Any, eps: float, **constants: Any) -> None:
        super().__init__(*arguments, eps=eps, **constants)
        self._epsilon = eps
        self.register_step_pre_hook(self._correct_epsilon)

    def _correct_epsilon(self, *_: Any) -> None:
        for group in self.param_groups:
            group["eps"] = self._epsilon * (1 - group["betas"][1] ** (int(self.updates) + 1)) ** -0.5


class OwnRule(Counted):
    """A rule that torch lacks, written with torch's operations on lists of arrays."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float, **constants: float) -> None:
        super().__init__(parameters, {"lr": lr, **constants})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight] = {name: torch.zeros_like(weight) for name in self.states}
            states = ([self.state[weight][name] for weight in weights] for name in self.states)
            self.update(group, weights, [weight.grad for weight in weights], *states)

    def update(self, constants: dict, weights: list, gradients: list, *states: list) -> None:
        """Update weights and states in place. states: for each of `states`, those of the weights."""
        raise NotImplementedError


class MomentumSGD(OwnRule):
    """SGD with momentum (update_rules.momentum_sgd); torch's own has the learning rate outside the velocity."""

    states = ("velocity",)

    def update(self, constants: dict, weights: list, gradients: list, *states: list) -> None:
        (velocities,) = states
        torch._foreach_mul_(velocities, constants["momentum"])
        torch._foreach_add_(velocities, gradients, alpha=-constants["lr"])
        torch._foreach_add_(weights, velocities)


class RMSpropWarmup(OwnRule):
    """Momentum SGD and RMSprop at once (update_rules.rmsprop_warmup); torch has none."""

    states = ("square", "velocity")

    def update(self, constants: dict, weights: list, gradients: list, *states: list) -> None:
        squares, velocities = states
        torch._foreach_mul_(squares, constants["alpha"])
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - constants["alpha"])
        torch._foreach_mul_(velocities, constants["momentum"])
        torch._foreach_add_(velocities, gradients, alpha=-constants["sgd_share"])
        torch._foreach_add_(weights, velocities, alpha=constants["lr"])
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, constants["eps"])
        torch._foreach_addcdiv_(weights, gradients, roots, value=-constants["lr"] * constants["rmsprop_share"])


OPTIMIZERS: Mapping[str, Callable[..., Counted]] = {
    "sgd": SGD,
    "momentum_sgd": MomentumSGD,
    "adam": Adam,
    "adam_algorithm_1": AdamAlgorithm1,
    "rmsprop": RMSprop,
    "rmsprop_warmup": RMSpropWarmup,
}

NAMES = {"learning_rate": "lr", "rho": "alpha", "epsilon": "eps"}
"""torch's names of constants that have other ones there."""


def create_optimizer(
    table: Mapping[str, Callable[..., Counted]], parameters: Iterable[torch.nn.Parameter], rule: str, **constants: Any
) -> Counted:
    """Return the optimizer of an update rule before its first update. It may change the parameters.

    table: the optimizers, as OPTIMIZERS. constants: those of the rule.
    """
    if "beta_1" in constants:
        constants["betas"] = constants.pop("beta_1"), constants.pop("beta_2")
    optimizer = table[rule](parameters, **{NAMES.get(name, name): value for name, value in constants.items()})
    optimizer.begin()
    return optimizer


def set_rates(optimizer: torch.optim.Optimizer, rates: Rates) -> None:
    """Give the constants of an epoch to an optimizer: the learning rate, and the shares of rmsprop_warmup."""
    for group in optimizer.param_groups:
        group.update((NAMES.get(name, name), value) for name, value in rates)
