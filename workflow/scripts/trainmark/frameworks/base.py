"""The contract that every adapter fulfils, and what all adapters share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from trainmark.architecture import Architecture
from trainmark.batches import EpochFeed
from trainmark.recipe import Optimizer
from trainmark.weights import Weights

EVALUATION_BATCH_SIZE = 1000
"""Samples a forward step in evaluation: bounds memory, and changes no result."""


class Adapter(ABC):
    """Trains one architecture with one framework. Call `build`, then `load` each split, then the rest."""

    out_of_memory_texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The exceptions of the framework that say that memory ran out: by class name, texts; theirs must hold one."""

    def __init__(self, framework: str, threads: int) -> None:
        self.framework = framework
        self.threads = threads
        self.labels: dict[str, np.ndarray] = {}

    @abstractmethod
    def build(
        self, *, architecture: Architecture, weights: Weights, optimizer: Optimizer, device: str, dtype: str
    ) -> None:
        """Make the network with exactly these first weights on `device` ("cpu" or "gpu"), in "float32" or "float64".

        Raises DeviceError where the framework does not see the device: there is no silent fall-back.
        """

    @abstractmethod
    def load(self, *, split: str, images: np.ndarray, labels: np.ndarray) -> None:
        """Put a split where it is trained from, once: images (samples, channels, height, width), labels (samples,)."""

    def compile(self, feed: EpochFeed) -> None:
        """Train one step of each batch size of `feed`, so that what the framework compiles for them is compiled.

        It changes the state: whoever calls it keeps `state` and puts it back.
        """
        self.train_epoch(feed.one_of_each_size())

    @abstractmethod
    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """Train on the split "train" in the feed's order; return the mean loss of each step, float64, (steps,).

        Each loss is that of the batch before its update, with dropout on. It may still be running on the device
        only until `synchronize` returns.
        """

    @abstractmethod
    def predict(self, split: str) -> np.ndarray:
        """Logits of a whole loaded split in its stored order, dropout off: (samples, classes)."""

    @abstractmethod
    def weights(self) -> Weights:
        """A copy of the present weights, in the names, shapes and layout of `architecture.parameters()`."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Everything that the next epoch depends on: weights and the optimizer's state, as plain arrays."""

    @abstractmethod
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Put back what `state` returned, in an adapter built alike."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when all work given to the device is done."""

    @abstractmethod
    def describe_device(self) -> dict[str, str]:
        """The device that the arrays really lie on: "kind" ("cpu" or "gpu") and "name"."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that train, by package."""

    @abstractmethod
    def device_memory_mib(self) -> float | None:
        """Most memory of the GPU that the framework held so far, MiB; None on the CPU, and where it does not tell."""

    def thread_pools(self) -> list[dict]:
        """The framework's own pools of threads, as "library" and "threads", where it has any and tells."""
        return []

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether an exception says that memory ran out, the host's or the device's."""
        texts = self.out_of_memory_texts.get(type(error).__name__, ())
        return isinstance(error, MemoryError) or any(text in str(error) for text in texts)

    def evaluate(self, split: str) -> tuple[float, float]:
        """(mean cross entropy, accuracy) over a loaded split; from the logits, the same arithmetic everywhere."""
        return cross_entropy_and_accuracy(self.predict(split), self.labels[split])


def cross_entropy_and_accuracy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean of -log softmax(logits)[label], fused so that it can't overflow, and the share of right argmax.

    logits: (samples, classes). labels: (samples,). The arithmetic is float64. NaN logits give a NaN loss.
    """
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # a diverged network: the NaN is the answer
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_normalizer = np.log(np.exp(shifted).sum(axis=1))
        loss = np.mean(log_normalizer - shifted[np.arange(len(labels)), labels])
    return float(loss), float(np.mean(logits.argmax(axis=1) == labels))
