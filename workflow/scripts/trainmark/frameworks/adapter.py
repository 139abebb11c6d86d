"""The contract that every adapter fulfils, and what all adapters share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np

from trainmark.errors import DeviceError, PrecisionError, ShapeError
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer

EVALUATION_BATCH_SIZE = 1000
"""Most samples a forward step in evaluation."""

EVALUATION_VALUES = 1 << 24
"""Most values of a layer's output in a forward step of evaluation: 64 MiB in float32; more is slower in numpy."""


def evaluation_batch_size(architecture: Architecture) -> int:
    """Samples a forward step in evaluation: bounds memory, and changes no result."""
    largest = max(prod(shape) for shape in architecture.shapes().values())
    return max(1, min(EVALUATION_BATCH_SIZE, EVALUATION_VALUES // largest))


class Adapter(ABC):
    """Trains one architecture with one framework. Call `build`, then `load` each split, then the rest.

    docs/adapter_template.py is an adapter to copy and fill in.
    """

    out_of_memory_texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The exceptions of the framework that say that memory ran out: by class name, texts; theirs must hold one."""

    float32_ops: tuple[str, ...] = ()
    """Ops that the framework computes in float32 even in a network of float64, as is known and shown by a test."""

    def __init__(self, framework: str, threads: int) -> None:
        self.framework = framework
        self.threads = threads

    # --- required ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def build(
        self,
        *,
        architecture: Architecture,
        weights: Weights,
        optimizer: Optimizer,
        device: str,
        dtype: str,
        observed_batch: int | None = None,
    ) -> None:
        """Make the network with exactly these initial weights on `device` ("cpu" or "gpu"), in "float32" or "float64".

        observed_batch: for a training that is looked into (`gradients`, `set_masks`), the samples of each of its
        steps; None for any other. Where it is given, dropout goes by the masks that were set, and is off before any.

        Raises DeviceError where the framework does not see the device: there is no silent fall-back; ShapeError where
        a layer's output or array has not the shape that the architecture says.
        """

    @abstractmethod
    def load(self, *, split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Put a split where it is trained from, once.

        inputs: images (samples, channels, height, width), or token ids int32 (samples, length). labels: (samples,).
        """

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
        """A copy of the present weights, in the names, shapes and layout of `architecture.arrays()`."""

    @abstractmethod
    def set_weights(self, weights: Weights) -> None:
        """Put these weights in the place of the present ones. The optimizer's state stays as it is."""

    @abstractmethod
    def counted(self) -> dict[str, int]:
        """What the framework itself counted, not what it was asked for.

        "samples" and "batches" of the last `train_epoch`, and "updates" of the optimizer since the initial weights.
        """

    @abstractmethod
    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        """The output of every layer for some samples of a loaded split, by node, "input" (what came in) first.

        Each (samples, *shape) in the shapes of the architecture, in the order of its nodes. training: as a training
        step computes them, with batch statistics, dropout by its masks, and auxiliary heads; else as evaluation does,
        without those. The state stays as it was. With training it needs a network built with `observed_batch`.

        Raises ShapeError where a layer's output has not the shape that the architecture says.
        """

    @abstractmethod
    def gradients(self) -> Weights:
        """Gradients of the last step's loss by the trained arrays; needs a network built with `observed_batch`."""

    @abstractmethod
    def set_masks(self, masks: Weights) -> None:
        """What each Dropout layer multiplies its input by in the next steps, by node: (observed_batch, *shape)."""

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

    # --- optional: each has a default that fits most frameworks -----------------------------------------------------

    def compile(self, feed: EpochFeed) -> None:
        """Train one step of each batch size of `feed`, so that what the framework compiles for them is compiled.

        It changes the state: whoever calls it keeps `state` and puts it back.
        """
        self.train_epoch(feed.one_of_each_size())

    def thread_pools(self) -> list[dict]:
        """The framework's own pools of threads, as "library" and "threads", where it has any and tells."""
        return []

    # --- given ------------------------------------------------------------------------------------------------------

    def check_device(self, asked: str) -> dict[str, str]:
        """The device, as described. Raises DeviceError where the arrays did not come to lie on the one asked for."""
        found = self.describe_device()
        if found["kind"] != asked:
            raise DeviceError(f"{self.framework} was asked for the device {asked} and put its arrays on {found}")
        return found

    def check_precision(self, what: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise PrecisionError where an array holds two-byte numbers, such as float16 or bfloat16."""
        for name, array in arrays.items():
            if array.dtype.itemsize == 2:
                raise PrecisionError(
                    f"{self.framework} gives the {what} of {name} in {array.dtype}, and trainmark compares float32 and "
                    "float64 alone; have the adapter train in the dtype that `build` is given"
                )

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether an exception says that memory ran out, the host's or the device's."""
        texts = self.out_of_memory_texts.get(type(error).__name__, ())
        return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def check_shape(framework: str, node: str, found: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ShapeError where a layer's output, without the batch axis, has not the shape that the architecture says."""
    if tuple(found) != tuple(expected):
        raise ShapeError(framework, node, f"gives the shape {tuple(found)}", tuple(expected))


def check_array(framework: str, parameter: Parameter, found: Sequence[int] | None) -> None:
    """Raise ShapeError where a layer's array has not the shape that the architecture says, or is not there (None)."""
    if found is None or tuple(found) != parameter.shape:
        what = f"has no {parameter.role}" if found is None else f"has a {parameter.role} of the shape {tuple(found)}"
        raise ShapeError(framework, parameter.layer, what, parameter.shape)
