"""A training of a network of dense layers in plain numpy, float64: the reference that every adapter must match."""

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.update_rules import SLOTS, UPDATE_RULES, State

OPS = ("Flatten", "Dense", "ReLU", "Dropout")
"""The layers that the reference has."""


def has_layers(architecture: Architecture) -> bool:
    """Return whether the reference has all layers of a network."""
    shapes = architecture.shapes()
    of_vectors = all(len(shapes[node.inputs[0]]) == 1 for node in architecture.nodes if node.op == "Dense")
    return of_vectors and not architecture.auxiliary and all(node.op in OPS for node in architecture.nodes)


class Reference:
    """Trains an architecture of OPS step by step, with gradients written out by hand."""

    def __init__(self, architecture: Architecture, weights: Weights, optimizer: Optimizer) -> None:
        self.nodes = architecture.nodes
        self.rule = optimizer.rule
        self.constants = optimizer.as_dict()
        del self.constants["rule"]
        self.gradients: dict[str, np.ndarray] = {}
        self._splits: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.set_weights(weights)
        self.set_slots({}, 0)

    # --- as an adapter ----------------------------------------------------------------------------------------------

    def load(self, *, split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
        """See `Adapter.load`."""
        self._splits[split] = inputs, labels

    def weights(self) -> Weights:
        """See `Adapter.weights`."""
        return dict(self._weights)

    def set_weights(self, weights: Weights) -> None:
        """See `Adapter.set_weights`."""
        self._weights = {name: array.astype(np.float64) for name, array in weights.items()}

    def set_slots(self, slots: Weights, updates: int) -> None:
        """See `ObservedAdapter.set_slots`. Missing arrays are those before the first update."""
        self.step = updates
        self.states: dict[str, State] = {name: {} for name in self._weights}
        for name, state in self.states.items():
            own = ((slot, f"{name}.{slot}") for slot in SLOTS[self.rule])
            state.update({slot: slots[key].astype(np.float64) for slot, key in own if key in slots})

    def slots(self) -> Weights:
        """See `ObservedAdapter.slots`."""
        return {f"{name}.{slot}": array for name, state in self.states.items() for slot, array in state.items()}

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `Adapter.train_epoch`."""
        self.constants.update(feed.rates)
        masks = np.random.default_rng(feed.dropout_seed)
        return np.array([self.train_step(*batch, masks) for batch in feed.batches(*self._splits["train"])])

    def predict(self, split: str) -> np.ndarray:
        """See `Adapter.predict`."""
        return self.logits(self._splits[split][0])

    # --- a step -----------------------------------------------------------------------------------------------------

    def logits(self, images: np.ndarray, masks: np.random.Generator | None = None) -> np.ndarray:
        """Return the logits of images (samples, channels, height, width); keep each layer's input for the gradients.

        masks: draws the masks of Dropout layers; without it there is no dropout.
        """
        x = images.astype(np.float64)
        self.inputs: dict[str, np.ndarray] = {}
        self.factors: dict[str, np.ndarray] = {}
        for node in self.nodes:
            self.inputs[node.name] = x
            if node.op == "Flatten":
                x = x.reshape(len(x), -1)
            elif node.op == "Dense":
                x = x @ self._weights[f"{node.name}.kernel"] + self._weights[f"{node.name}.bias"]
            elif node.op == "ReLU":
                x = np.maximum(x, 0)
            elif masks is not None:
                rate = node.attributes["rate"]
                self.factors[node.name] = (masks.random(x.shape) >= rate) / (1 - rate)
                x = x * self.factors[node.name]
        return x

    def loss(
        self, images: np.ndarray, labels: np.ndarray, masks: np.random.Generator | None = None
    ) -> tuple[float, float]:
        """Return (mean cross entropy, accuracy) by the definition, -log of the softmax."""
        logits = self.logits(images, masks)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.probabilities = powers / powers.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        return float(-np.log(self.probabilities[rows, labels]).mean()), float((logits.argmax(axis=1) == labels).mean())

    def train_step(self, images: np.ndarray, labels: np.ndarray, masks: np.random.Generator | None = None) -> float:
        """Make one update and return the loss before it."""
        loss, _ = self.loss(images, labels, masks)
        delta = self.probabilities.copy()
        delta[np.arange(len(labels)), labels] -= 1
        delta /= len(labels)
        self.gradients = {}
        for node in reversed(self.nodes):
            x = self.inputs[node.name]
            if node.op == "Dense":
                self.gradients[f"{node.name}.kernel"] = x.T @ delta
                self.gradients[f"{node.name}.bias"] = delta.sum(axis=0)
                delta = delta @ self._weights[f"{node.name}.kernel"].T
            elif node.op == "ReLU":
                delta = delta * (x > 0)
            elif node.name in self.factors:
                delta = delta * self.factors[node.name]
        self.step += 1
        rule = UPDATE_RULES[self.rule]
        for name, gradient in self.gradients.items():
            self._weights[name] = rule(self._weights[name], gradient, self.states[name], self.step, **self.constants)
        return loss
