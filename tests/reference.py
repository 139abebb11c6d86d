"""A network of Flatten, Dense and ReLU in plain numpy, float64: the reference that every adapter must match."""

import numpy as np

from trainmark.recipes.update_rules import UPDATE_RULES


class Reference:
    """Trains an architecture step by step, with gradients written out by hand."""

    def __init__(self, architecture, weights, optimizer):
        self.nodes = architecture.nodes
        self.weights = {name: array.astype(np.float64) for name, array in weights.items()}
        constants = optimizer.as_dict()
        self.rule = UPDATE_RULES[constants.pop("rule")]
        self.constants = constants
        self.states = {name: {} for name in weights}
        self.step = 0

    def logits(self, images):
        """Logits of images (samples, channels, height, width); keeps each layer's input for `gradients`."""
        x = images.astype(np.float64)
        self.inputs = {}
        for node in self.nodes:
            self.inputs[node.name] = x
            if node.op == "Flatten":
                x = x.reshape(len(x), -1)
            elif node.op == "Dense":
                x = x @ self.weights[f"{node.name}.kernel"] + self.weights[f"{node.name}.bias"]
            elif node.op == "ReLU":
                x = np.maximum(x, 0)
        return x

    def loss(self, images, labels):
        """(mean cross entropy, accuracy) by the definition, -log of the softmax, without any reformulation."""
        logits = self.logits(images)
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        self.probabilities = probabilities
        rows = np.arange(len(labels))
        return -np.log(probabilities[rows, labels]).mean(), (logits.argmax(axis=1) == labels).mean()

    def train_step(self, images, labels):
        """Make one update and return the loss before it."""
        loss, _ = self.loss(images, labels)
        delta = self.probabilities.copy()
        delta[np.arange(len(labels)), labels] -= 1
        delta /= len(labels)
        gradients = {}
        for node in reversed(self.nodes):
            x = self.inputs[node.name]
            if node.op == "Dense":
                gradients[f"{node.name}.kernel"] = x.T @ delta
                gradients[f"{node.name}.bias"] = delta.sum(axis=0)
                delta = delta @ self.weights[f"{node.name}.kernel"].T
            elif node.op == "ReLU":
                delta = delta * (x > 0)
        self.step += 1
        self.gradients = gradients
        for name, gradient in gradients.items():
            updated = self.rule(self.weights[name], gradient, self.states[name], self.step, **self.constants)
            self.weights[name] = updated
        return loss
