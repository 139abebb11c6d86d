"""An example of a new framework: plain numpy. CONTRIBUTING names the steps; test_one_place.py takes them."""

import numpy as np
from reference import Reference

from trainmark.errors import DeviceError
from trainmark.frameworks.adapter import Adapter

FRAMEWORKS = {"numpy": {"packages": ["numpy"], "environment": {}}}


def create(framework, threads):
    """The adapter of a framework of FRAMEWORKS."""
    return NumpyAdapter(framework, threads)


class NumpyAdapter(Adapter):
    """See `adapter.Adapter`."""

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        """See `adapter.Adapter.build`. It knows no layer that drops units, so that all training can be looked into."""
        if device == "gpu":
            raise DeviceError("numpy sees no GPU")
        self._architecture = architecture
        self._network = Reference(architecture, weights, optimizer)
        self._dtype = dtype
        self._inputs, self._labels = {}, {}
        self._counted = {}

    def load(self, *, split, inputs, labels):
        """See `adapter.Adapter.load`."""
        self._inputs[split], self._labels[split] = inputs, labels

    def train_epoch(self, feed):
        """See `adapter.Adapter.train_epoch`."""
        order = np.arange(feed.samples) if feed.order is None else np.asarray(feed.order)
        inputs, labels = self._inputs["train"], self._labels["train"]
        starts = range(0, feed.samples, feed.batch_size)
        batches = [order[start : start + feed.batch_size] for start in starts]
        self._counted = {"samples": sum(map(len, batches)), "batches": len(batches)}
        self._network.constants |= dict(feed.rates)
        return np.array([self._network.train_step(inputs[batch], labels[batch]) for batch in batches])

    def predict(self, split):
        """See `adapter.Adapter.predict`."""
        return self._network.logits(self._inputs[split])

    def activations(self, split, indices, *, training):
        """See `adapter.Adapter.activations`."""
        inputs = self._inputs[split][np.asarray(indices)]
        logits = self._network.logits(inputs)
        outputs = [*list(self._network.inputs.values())[1:], logits]  # a layer's output is the next one's input
        return {"input": inputs, **dict(zip(self._network.inputs, outputs, strict=True))}

    def gradients(self):
        """See `adapter.Adapter.gradients`."""
        names = [parameter.name for parameter in self._architecture.parameters()]
        return {name: self._network.gradients[name] for name in names}

    def set_masks(self, masks):
        """See `adapter.Adapter.set_masks`."""

    def weights(self):
        """See `adapter.Adapter.weights`."""
        return {name: array.astype(self._dtype) for name, array in self._network.weights.items()}

    def set_weights(self, weights):
        """See `adapter.Adapter.set_weights`."""
        self._network.weights = {name: array.astype(np.float64) for name, array in weights.items()}

    def counted(self):
        """See `adapter.Adapter.counted`."""
        return {**self._counted, "updates": self._network.step}

    def state(self):
        """See `adapter.Adapter.state`."""
        network = self._network
        moments = {f"{name} {key}": array for name, of in network.states.items() for key, array in of.items()}
        return {**network.weights, **moments, "step": np.array(network.step)}

    def set_state(self, state):
        """See `adapter.Adapter.set_state`."""
        self._network.step = int(state["step"])
        for name in self._network.weights:
            self._network.weights[name] = state[name]
            moments = {key.removeprefix(f"{name} "): state[key] for key in state if key.startswith(f"{name} ")}
            self._network.states[name] = moments

    def synchronize(self):
        """See `adapter.Adapter.synchronize`."""

    def describe_device(self):
        """See `adapter.Adapter.describe_device`."""
        return {"kind": "cpu", "name": "numpy"}

    def device_memory_mib(self):
        """See `adapter.Adapter.device_memory_mib`."""
        return None

    def versions(self):
        """See `adapter.Adapter.versions`."""
        return {"numpy": np.__version__}
