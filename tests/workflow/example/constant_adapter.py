"""A framework that computes nothing, for tests of what depends on which code."""

import numpy as np

from trainmark.frameworks.adapter import Adapter

FRAMEWORKS = {"constant": {"packages": ["numpy"], "environment": {}}}


def create(framework, threads):
    """The adapter of a framework of FRAMEWORKS."""
    return ConstantAdapter(framework, threads)


class ConstantAdapter(Adapter):
    """See `adapter.Adapter`."""

    def build(self, *, architecture, weights, optimizer, device, dtype):
        """See `adapter.Adapter.build`."""
        self._weights = weights
        self._samples, self._counted, self._updates = {}, {}, 0

    def load(self, *, split, inputs, labels):
        """See `adapter.Adapter.load`."""
        self._samples[split] = len(labels)

    def train_epoch(self, feed):
        """See `adapter.Adapter.train_epoch`."""
        self._counted = {"samples": feed.samples, "batches": feed.steps}
        self._updates += feed.steps
        return np.ones(feed.steps)

    def predict(self, split):
        """See `adapter.Adapter.predict`."""
        return np.zeros((self._samples[split], 10))

    def weights(self):
        """See `adapter.Adapter.weights`."""
        return self._weights

    def set_weights(self, weights):
        """See `adapter.Adapter.set_weights`."""

    def counted(self):
        """See `adapter.Adapter.counted`."""
        return {**self._counted, "updates": self._updates}

    def state(self):
        """See `adapter.Adapter.state`."""
        return {**self._weights, "updates": np.array(self._updates)}

    def set_state(self, state):
        """See `adapter.Adapter.set_state`."""
        self._updates = int(state["updates"])

    def synchronize(self):
        """See `adapter.Adapter.synchronize`."""

    def describe_device(self):
        """See `adapter.Adapter.describe_device`."""
        return {"kind": "cpu", "name": "none"}
