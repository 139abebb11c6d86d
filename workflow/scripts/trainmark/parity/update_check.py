"""Compares a trainer's weight updates with the update rule in numpy, applied to the trainer's own gradients.

Two trainers that are compared with each other diverge sooner or later if the training amplifies rounding. This check
does not depend on that, because each step is judged by its own gradients.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import blocks, relative
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
        self._states: defaultdict[tuple[str, int], State] = defaultdict(dict)
        self._step = 0

    def check_step(self, gradients: Weights, weights: Weights) -> tuple[str, float]:
        """Return (layer, relative difference) of the layer whose weights differ most from the rule's.

        gradients: the step's gradients; the rule is applied with them to the weights before the step.
        weights: the weights after the step.
        """
        self._step += 1
        with np.errstate(invalid="ignore", over="ignore"):  # a training that diverges is not the rule's fault
            differences = {layer: self._difference(names, gradients, weights) for layer, names in self._layers.items()}
        self._weights = weights
        return max(differences.items(), key=lambda item: item[1])

    def _difference(self, names: Sequence[str], gradients: Weights, weights: Weights) -> float:
        """Apply the rule to the arrays of a layer. The difference is infinite if arrays do not fit."""
        squares = np.zeros(3)
        for name in names:
            arrays = [source[name] for source in (self._weights, gradients, weights) if name in source]
            if len(arrays) < 3 or len({array.shape for array in arrays}) > 1:
                return float("inf")
            for block, parts in enumerate(zip(*map(blocks, arrays), strict=True)):
                before, gradient, after = (part.astype(np.float64, copy=False) for part in parts)
                state = self._states[name, block]
                due = self._rule(before, gradient, state, self._step, **self._constants)
                wrong = due - after
                # The same bits are equal, also if they are not finite.
                distance = 0.0 if due.tobytes() == after.tobytes() else wrong @ wrong
                squares += distance, due @ due, after @ after
        return relative(*np.sqrt(squares).tolist())
