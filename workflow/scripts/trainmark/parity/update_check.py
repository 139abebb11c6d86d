"""Does a trainer update its weights by the rule? By its own gradients, against the rule in numpy.

Two trainers that are compared with each other part sooner or later, where a training magnifies rounding; this does not.
"""

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.update_rules import UPDATE_RULES, State


class UpdateCheck:
    """The updates of one training, step by step, from weights that no step has changed yet."""

    def __init__(self, architecture: Architecture, optimizer: Optimizer, weights: Weights) -> None:
        constants = optimizer.as_dict()
        self._rule = UPDATE_RULES[constants.pop("rule")]
        self._constants = constants
        self._layers: dict[str, list[str]] = {}
        for parameter in architecture.parameters():
            self._layers.setdefault(parameter.layer, []).append(parameter.name)
        self._weights = weights
        self._states: dict[str, State] = {name: {} for names in self._layers.values() for name in names}
        self._step = 0

    def after(self, gradients: Weights, weights: Weights) -> tuple[str, float]:
        """(layer, relative difference) of the layer whose weights after a step are the furthest from the rule's.

        gradients: of the step, by which the rule is applied to the weights before it.
        """
        self._step += 1
        with np.errstate(invalid="ignore", over="ignore"):  # a training that diverges is not the rule's fault
            wanted = {
                name: self._rule(
                    self._weights[name].astype(np.float64), gradients[name].astype(np.float64), state, self._step,
                    **self._constants,
                )
                for name, state in self._states.items()
                if name in self._weights and name in gradients
            }  # fmt: skip
            apart = {layer: array_difference(wanted, weights, names) for layer, names in self._layers.items()}
        self._weights = weights
        return max(apart.items(), key=lambda one: one[1])
