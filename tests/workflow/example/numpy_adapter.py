"""An example of a new framework: plain numpy. CONTRIBUTING names the steps; test_one_place.py takes them."""

import numpy as np
from reference import Reference

from trainmark.errors import DeviceError
from trainmark.frameworks.base import Adapter

FRAMEWORKS = {"numpy": {"packages": ["numpy"], "environment": {}}}


def create(framework, threads):
    """The adapter of a framework of FRAMEWORKS."""
    return NumpyAdapter(framework, threads)


class NumpyAdapter(Adapter):
    """See `base.Adapter`."""

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        """See `base.Adapter.build`. It knows no layer that drops units, so that all training can be looked into."""
        if device == "gpu":
            raise DeviceError("numpy sees no GPU")
        self._architecture = architecture
        self._network = Reference(architecture, weights, optimizer)
        self._dtype = dtype
        self._inputs, self._labels = {}, {}

    def load(self, *, split, inputs, labels):
        """See `base.Adapter.load`."""
        self._inputs[split], self._labels[split] = inputs, labels

    def train_epoch(self, feed):
        """See `base.Adapter.train_epoch`."""
        order = np.arange(feed.samples) if feed.order is None else np.asarray(feed.order)
        inputs, labels = self._inputs["train"], self._labels["train"]
        starts = range(0, feed.samples, feed.batch_size)
        batches = [order[start : start + feed.batch_size] for start in starts]
        return np.array([self._network.train_step(inputs[batch], labels[batch]) for batch in batches])

    def predict(self, split):
        """See `base.Adapter.predict`."""
        return self._network.logits(self._inputs[split])

    def activations(self, split, indices, *, training):
        """See `base.Adapter.activations`."""
        inputs = self._inputs[split][np.asarray(indices)]
        logits = self._network.logits(inputs)
        outputs = [*list(self._network.inputs.values())[1:], logits]  # a layer's output is the next one's input
        return {"input": inputs, **dict(zip(self._network.inputs, outputs, strict=True))}

    def gradients(self):
        """See `base.Adapter.gradients`."""
        names = [parameter.name for parameter in self._architecture.parameters()]
        return {name: self._network.gradients[name] for name in names}

    def set_masks(self, masks):
        """See `base.Adapter.set_masks`."""

    def weights(self):
        """See `base.Adapter.weights`."""
        return {name: array.astype(self._dtype) for name, array in self._network.weights.items()}

    def state(self):
        """See `base.Adapter.state`."""
        return dict(self._network.weights)

    def set_state(self, state):
        """See `base.Adapter.set_state`."""
        self._network.weights = dict(state)

    def synchronize(self):
        """See `base.Adapter.synchronize`."""

    def describe_device(self):
        """See `base.Adapter.describe_device`."""
        return {"kind": "cpu", "name": "numpy"}

    def device_memory_mib(self):
        """See `base.Adapter.device_memory_mib`."""
        return None

    def versions(self):
        """See `base.Adapter.versions`."""
        return {"numpy": np.__version__}
