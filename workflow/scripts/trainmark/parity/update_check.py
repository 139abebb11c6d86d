"""Compares a trainer's weight updates with the update rule in numpy, applied to the trainer's own gradients.

Two trainers that are compared with each other diverge sooner or later if the training amplifies rounding. This check
does not depend on that, because each step is judged by its own gradients.
"""

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.update_rules import UPDATE_RULES, State


class UpdateCheck:
    """Checks the updates of one training step by step, beginning with a fresh optimizer state.

    weights: the weights before the first step.
    """

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

    def check_step(self, gradients: Weights, weights: Weights) -> tuple[str, float]:
        """Return (layer, relative difference) of the layer whose weights differ most from the rule's.

        gradients: the step's gradients; the rule is applied with them to the weights before the step.
        weights: the weights after the step.
        """
        self._step += 1
        with np.errstate(invalid="ignore", over="ignore"):  # a training that diverges is not the rule's fault
            expected = {
                name: self._rule(
                    self._weights[name].astype(np.float64), gradients[name].astype(np.float64), state, self._step,
                    **self._constants,
                )
                for name, state in self._states.items()
                if name in self._weights and name in gradients
            }  # fmt: skip
            differences = {layer: array_difference(expected, weights, names) for layer, names in self._layers.items()}
        self._weights = weights
        return max(differences.items(), key=lambda item: item[1])
