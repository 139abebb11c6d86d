"""Chainer on the CPU that says that it trains on a GPU, for tests of who holds which: it takes its time."""

import os
import time

from trainmark.frameworks.chainer_adapter import ChainerAdapter

FRAMEWORKS = {"pretended": {"packages": ["chainer"], "environment": {}}}


def create(framework, threads):
    """The adapter of a framework of FRAMEWORKS."""
    return PretendedAdapter(framework, threads)


class PretendedAdapter(ChainerAdapter):
    """See `adapter.Adapter`. Its device is named after the GPUs that CUDA would show it."""

    def build(self, *, device, **arguments):
        """See `adapter.Adapter.build`."""
        super().build(device="cpu", **arguments)
        self._pretended = device

    def train_epoch(self, feed):
        """See `adapter.Adapter.train_epoch`."""
        time.sleep(0.2 if self._pretended == "gpu" else 0)
        return super().train_epoch(feed)

    def describe_device(self):
        """See `adapter.Adapter.describe_device`."""
        return {"kind": self._pretended, "name": os.environ["CUDA_VISIBLE_DEVICES"]}

    def device_memory_mib(self):
        """See `adapter.Adapter.device_memory_mib`."""
        return 1.0 if self._pretended == "gpu" else None
