"""A framework that says that it trains on a GPU, for tests of who holds which: it needs none, and takes its time."""

import os
import time

import numpy as np

from trainmark.frameworks.base import Adapter

FRAMEWORKS = {"fake-gpu": {"packages": ["numpy"], "environment": {}}}


def create(framework, threads):
    """The adapter of a framework of FRAMEWORKS."""
    return FakeGpuAdapter(framework, threads)


class FakeGpuAdapter(Adapter):
    """See `base.Adapter`. Its device is named after the GPUs that CUDA would show it."""

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        """See `base.Adapter.build`."""
        self._device, self._weights, self._architecture = device, weights, architecture
        self._samples = {}

    def load(self, *, split, inputs, labels):
        """See `base.Adapter.load`."""
        self._samples[split] = len(labels)

    def train_epoch(self, feed):
        """See `base.Adapter.train_epoch`."""
        time.sleep(0.2)
        return np.ones(feed.steps)

    def predict(self, split):
        """See `base.Adapter.predict`."""
        return np.zeros((self._samples[split], 10))

    def activations(self, split, indices, *, training):
        """See `base.Adapter.activations`."""
        nodes = self._architecture.nodes if training else self._architecture.inference_nodes()
        shapes = self._architecture.shapes()
        return {name: np.zeros((len(indices), *shapes[name])) for name in ("input", *(node.name for node in nodes))}

    def gradients(self):
        """See `base.Adapter.gradients`."""
        return {parameter.name: np.zeros(parameter.shape) for parameter in self._architecture.parameters()}

    def set_masks(self, masks):
        """See `base.Adapter.set_masks`."""

    def weights(self):
        """See `base.Adapter.weights`."""
        return self._weights

    def state(self):
        """See `base.Adapter.state`."""
        return dict(self._weights)

    def set_state(self, state):
        """See `base.Adapter.set_state`."""

    def synchronize(self):
        """See `base.Adapter.synchronize`."""

    def describe_device(self):
        """See `base.Adapter.describe_device`."""
        return {"kind": self._device, "name": os.environ["CUDA_VISIBLE_DEVICES"]}

    def device_memory_mib(self):
        """See `base.Adapter.device_memory_mib`."""
        return 1.0 if self._device == "gpu" else None

    def versions(self):
        """See `base.Adapter.versions`."""
        return {"fake-gpu": "1"}
