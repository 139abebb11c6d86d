"""Checks that a framework computes on the GPU, in float32, and gets what numpy gets."""

import time

import numpy as np

from trainmark.errors import PrecisionError
from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import chain
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.recipe import DTYPE, Optimizer

SAMPLES, CLASSES = 64, 10
CHANNELS, SIDE, FILTERS = 3, 16, 32

MAX_DIFFERENCE = 1e-5
"""Maximum difference from numpy, relative to the largest logit. In float32 it is about 3e-7 for these products of 768
terms. With TensorFloat-32, whose fraction has 10 bits, it is about 4e-4 (tests/unit/training/test_gpu_check.py)."""

NETWORK = chain(
    "gpu-check",
    (CHANNELS, SIDE, SIDE),
    [
        ("conv", "Conv2D", {"filters": FILTERS, "size": SIDE}),  # its window is the whole image: a matrix product
        ("flatten", "Flatten", {}),
        ("dense", "Dense", {"units": CLASSES}),
    ],
)


def check_computing(adapter: Adapter, device: str) -> dict:
    """Evaluate and train one step of a small network, compare with numpy, and return what was seen.

    The result has: device (`Adapter.describe_device`), difference (the largest difference from numpy, relative to the
    largest logit), device_memory_mib, seconds, versions.

    Raises DeviceError if the framework does not see the device, puts its arrays on another one or uses no memory there,
    and PrecisionError if its results differ from numpy's by more than float32 explains.
    """
    begin = time.monotonic()
    generator = np.random.default_rng(1)
    images = generator.normal(size=(SAMPLES, CHANNELS, SIDE, SIDE)).astype(DTYPE)
    labels = generator.integers(0, CLASSES, SAMPLES)
    weights = {
        parameter.name: generator.normal(size=parameter.shape).astype(DTYPE) for parameter in NETWORK.parameters()
    }
    adapter.build(architecture=NETWORK, weights=weights, optimizer=Optimizer("sgd", 1e-6), device=device, dtype=DTYPE)
    adapter.load(split="train", inputs=images, labels=labels)
    logits = adapter.predict("train")
    losses = adapter.train_epoch(EpochFeed(None, SAMPLES, SAMPLES, 1))
    adapter.synchronize()
    described = adapter.check_device(device)
    if device == "gpu":
        adapter.check_gpu_memory()
    expected = _logits(images, weights)
    difference = float(np.abs(logits - expected).max() / np.abs(expected).max())
    loss_difference = abs(losses[0] / cross_entropy_and_accuracy(expected, labels)[0] - 1)
    if not max(difference, loss_difference) <= MAX_DIFFERENCE:  # NaN counts as too much
        raise PrecisionError(
            f"{adapter.framework} on {described['name']} differs from numpy by {difference:.1e} of the largest logit "
            f"and {loss_difference:.1e} of the loss; allowed: {MAX_DIFFERENCE:g}. A difference near 4e-4 means that it "
            "multiplies in TensorFloat-32"
        )
    return {
        "device": described,
        "difference": difference,
        "device_memory_mib": adapter.device_memory_mib(),
        "seconds": time.monotonic() - begin,
        "versions": adapter.versions(),
    }


def _logits(images: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    exact = {name: array.astype("float64") for name, array in weights.items()}
    products = np.einsum("schw,hwcf->sf", images.astype("float64"), exact["conv.kernel"])
    logits: np.ndarray = (products + exact["conv.bias"]) @ exact["dense.kernel"] + exact["dense.bias"]
    return logits
