"""A small adapter in numpy with injectable errors, and a network and a training for it; for the tests of parity."""

from copy import deepcopy

import numpy as np

from trainmark.errors import ShapeError
from trainmark.frameworks.adapter import ObservedAdapter
from trainmark.networks.graph import chain
from trainmark.parity import certified_steps
from trainmark.parity.certified_steps import CertifiedTraining
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.update_rules import SLOTS, UPDATE_RULES
from trainmark.trainer import Trainer

ARCHITECTURE = chain(
    "fake",
    (1, 3, 3),
    [
        ("flatten", "Flatten", {}),
        ("dense1", "Dense", {"units": 5}),
        ("norm", "BatchNorm", {}),
        ("relu", "ReLU", {}),
        ("drop", "Dropout", {"rate": 0.5}),
        ("dense2", "Dense", {"units": 4}),
    ],
)

MOMENTUM = Optimizer("momentum_sgd", 0.05, (("momentum", 0.9),))


def fake_training(**changes):
    """Ten steps of 4 samples with the fake network."""
    generator = np.random.default_rng(7)
    splits = {
        split: (generator.normal(size=(samples, 1, 3, 3)), generator.integers(0, 4, samples))
        for split, samples in (("train", 40), ("test", 6))
    }
    values = {
        "architecture": ARCHITECTURE,
        "weights": draw_initial_weights(ARCHITECTURE, "glorot_uniform", (1, 1)),
        "optimizer": MOMENTUM,
        "splits": splits,
        "batches": np.arange(40).reshape(10, 4),
        "seed": (1, 1),
        "full_batches": np.arange(36).reshape(3, 12),
        "settings": {"seed": 1},
    }
    return CertifiedTraining(**values | changes)


def trace(adapter, training, device="cpu", **options):
    """The trace of a fake trainer."""
    return certified_steps.trace(adapter, training, Trainer(adapter.framework, device), **options)


def untouched(what, step, name, array):
    """No error."""
    return array


class FakeAdapter(ObservedAdapter):
    """A network of Flatten, Dense, ReLU, Dropout, and a BatchNorm that only scales, shifts and tracks means.

    spoil(what, step, name, array) receives every array that the network computes and returns it, changed or not.
    """

    def __init__(self, framework="fake", spoil=untouched, float32_ops=("Dense", "BatchNorm", "ReLU", "Dropout")):
        super().__init__(framework, 1)
        self.float32_ops = float32_ops
        self.spoil = spoil
        self.calls = []

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        self.calls.append((dtype, optimizer.rule, observed_batch))
        self.spoil("build", 0, dtype, np.zeros(1, dtype))
        self.nodes, self.dtype, self.output = architecture.nodes, dtype, architecture.output
        self.set_weights(weights)
        constants, self.slot_rule = optimizer.as_dict(), optimizer.rule
        self.rule, self.constants = UPDATE_RULES[constants.pop("rule")], constants
        self.states = {name: {} for name in weights}
        self.data, self.masks, self.step = {}, {}, 1

    def load(self, *, split, inputs, labels):
        assert inputs.dtype == self.dtype
        self.data[split] = inputs, labels

    def slots(self):
        zeros = {name: dict.fromkeys(SLOTS[self.slot_rule], 0.0) for name in self.states}
        kept = {name: zeros[name] | state for name, state in self.states.items()}
        return {f"{name}.{slot}": array + 0 * self.values[name] for name in kept for slot, array in kept[name].items()}

    def set_slots(self, slots, updates):
        for name, array in slots.items():
            parameter, _, slot = name.rpartition(".")
            self.states[parameter][slot] = array
        self.step = updates + 1

    def activations(self, split, indices, *, training):
        what = "forward" if training else "evaluation"
        return self._forward(self.data[split][0][indices], self.masks if training else {}, what)

    def _forward(self, x, masks, what):
        found = {"input": x}
        for node in self.nodes:
            if node.op == "Flatten":
                x = x.reshape(len(x), -1)
            elif node.op == "Dense":
                x = x @ self.values[f"{node.name}.kernel"] + self.values[f"{node.name}.bias"]
            elif node.op == "BatchNorm":
                x = x * self.values[f"{node.name}.gamma"] + self.values[f"{node.name}.beta"]
            elif node.op == "ReLU":
                x = np.maximum(x, 0)
            else:
                x = x * masks.get(node.name, 1)
            x = self.spoil(what, self.step, node.name, x)
            found[node.name] = x
        return found

    def train_epoch(self, feed: EpochFeed):
        batches = [feed.order[start : start + feed.batch_size] for start in range(0, feed.samples, feed.batch_size)]
        self.count = {"samples": feed.samples, "batches": len(batches)}
        self.constants |= dict(feed.rates)
        return np.array([self._train_step(batch) for batch in batches])

    def _train_step(self, batch):
        images, labels = (array[batch] for array in self.data["train"])
        found = self._forward(images, self.masks, "forward")
        logits = found[self.output]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = self.spoil("loss", self.step, "loss", -np.log(chances[rows, labels]).mean())
        chances[rows, labels] -= 1
        self._backward(chances / len(labels), found)
        for name, gradient in self.kept.items():
            updated = self.rule(self.values[name], gradient, self.states[name], self.step, **self.constants)
            self.values[name] = self.spoil("update", self.step, name, updated)
        for name in {"norm.moving_mean"} & self.values.keys():
            moving = 0.9 * self.values[name] + 0.1 * found["dense1"].mean(axis=0)
            self.values[name] = self.spoil("statistics", self.step, name, moving)
        self.step += 1
        return loss

    def _backward(self, delta, found):
        self.kept = {}
        for node in reversed(self.nodes):
            x = found[node.inputs[0]]
            if node.op == "Dense":
                self._keep(f"{node.name}.kernel", x.T @ delta)
                self._keep(f"{node.name}.bias", delta.sum(axis=0))
                delta = delta @ self.values[f"{node.name}.kernel"].T
            elif node.op == "BatchNorm":
                self._keep(f"{node.name}.gamma", (x * delta).sum(axis=0))
                self._keep(f"{node.name}.beta", delta.sum(axis=0))
                delta = delta * self.values[f"{node.name}.gamma"]
            elif node.op == "ReLU":
                delta = delta * (x > 0)
            elif node.op == "Dropout":
                delta = delta * self.masks.get(node.name, 1)

    def _keep(self, name, gradient):
        self.kept[name] = self.spoil("backward", self.step, name, gradient)

    def weights(self):
        return {name: array.copy() for name, array in self.values.items()}

    def gradients(self):
        return self.kept

    def set_masks(self, masks):
        self.masks = masks

    def versions(self):
        return {"fake": "1"}

    def predict(self, split):
        return self._forward(self.data[split][0], {}, "evaluation")[self.output]

    def state(self):
        return deepcopy({"values": self.values, "states": self.states, "step": self.step})

    def set_state(self, state):
        vars(self).update(deepcopy(state))
        for name, array in self.values.items():
            self.spoil("state", 0, name, array)

    def set_weights(self, weights):
        self.values = {name: self.spoil("first", 0, name, array.astype(self.dtype)) for name, array in weights.items()}

    def counted(self):
        return {**self.count, "updates": self.step - 1}

    def synchronize(self):
        pass

    def describe_device(self):
        return {"kind": "cpu", "name": "fake"}

    def device_memory_mib(self):
        return None


def spoiling(what, name, factor, step=None, dtype="float64"):
    """A `spoil` that multiplies one array by 1 + factor, in one step or in all."""

    def spoil(kind, at, of, array):
        hit = (kind, of) == (what, name) and step in (None, at) and np.asarray(array).dtype == dtype
        return array * (1 + factor) if hit else array

    return spoil


def failing(what, name, error):
    """A `spoil` that raises an error at one array."""

    def spoil(kind, at, of, array):
        if (kind, of) == (what, name):
            raise error
        return array

    return spoil


SHAPE_ERROR = ShapeError("fake", "relu", "gives the shape (6,)", (5,))
