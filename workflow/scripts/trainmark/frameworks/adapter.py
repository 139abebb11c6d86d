"""The interface that every adapter implements, and functions that all adapters share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from trainmark.errors import DeviceError, PrecisionError, ShapeError
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Stream

EVALUATION_BATCH_SIZE = 1000
"""Maximum number of samples per forward step in evaluation."""

EVALUATION_VALUES = 1 << 24
"""Maximum number of values of a layer's output in a forward step of evaluation: 64 MiB in float32; more is slower in
numpy."""

LIBRARIES_OUT_OF_MEMORY = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA_ERROR_OUT_OF_MEMORY")
"""Messages of cuBLAS, cuDNN and the CUDA driver if they get no memory."""


def evaluation_batch_size(architecture: Architecture) -> int:
    """Return the number of samples per forward step in evaluation. It limits memory and does not affect results."""
    largest = max(prod(shape) for shape in architecture.shapes().values())
    return max(1, min(EVALUATION_BATCH_SIZE, EVALUATION_VALUES // largest))


def evaluation_batches(inputs: np.ndarray | Stream, architecture: Architecture) -> Iterator[np.ndarray]:
    """Yield the inputs of a split in their stored order, in batches for evaluation."""
    if isinstance(inputs, Stream):
        yield from (batch for batch, _ in inputs.stored_batches(inputs.evaluation_batch_size))
        return
    size = evaluation_batch_size(architecture)
    yield from (inputs[start : start + size] for start in range(0, len(inputs), size))


class Adapter(ABC):
    """Trains one architecture with one framework. Call `build` first, then `load` for each split, then the others.

    docs/your_own.md has a small one. Trainings of an adapter that is no ObservedAdapter are measured, not certified.
    """

    loop: str = "stock"
    """The loop that the adapter trains with (trainer.LOOPS)."""

    out_of_memory_texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The framework's out-of-memory exceptions: for each class name, texts of which the message must contain one."""

    float32_ops: tuple[str, ...] = ()
    """Ops that the framework computes in float32 even in a float64 network; each is shown by a test.

    `build` sets them if they depend on the device."""

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
    ) -> None:
        """Build the network.

        weights: the initial weights.
        optimizer: update rule and constants.
        device: "cpu" or "gpu".
        dtype: "float32" or "float64".

        Raises DeviceError if the framework does not see the device (never fall back to another one), and ShapeError if
        the output or an array of a layer has another shape than in the architecture.
        """

    @abstractmethod
    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """Store a split where the framework trains from. Called once per split.

        split: "train" or "test".
        inputs: images (samples, channels, height, width), or token ids int32 (samples, length). A Stream hands out
            images in batches: `train_epoch` then takes its training_batches and `predict` its stored_batches.
        labels: (samples,).
        """

    @abstractmethod
    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """Train on the split "train" in the feed's order; return the mean loss of each step, float64, (steps,).

        Each loss is that of the batch before its update, with dropout on. The device may still be working until
        `synchronize` returns.
        """

    @abstractmethod
    def predict(self, split: str) -> np.ndarray:
        """Return the logits of a loaded split in its stored order, without dropout: (samples, classes).

        A Stream is predicted in batches of its own `evaluation_batch_size`.
        """

    @abstractmethod
    def weights(self) -> Weights:
        """Return a copy of the current weights, with the names, shapes and layout of `architecture.arrays()`."""

    @abstractmethod
    def set_weights(self, weights: Weights) -> None:
        """Replace the current weights. The optimizer's state stays as it is."""

    @abstractmethod
    def counted(self) -> dict[str, int]:
        """Return the counts of the framework itself, not those of the feed.

        "samples" and "batches" of the last `train_epoch`, and "updates" since the optimizer was made.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Return everything that the next epoch depends on, weights and the optimizer's state, as plain arrays."""

    @abstractmethod
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned, in an adapter with the same `build` arguments."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has finished all its work."""

    @abstractmethod
    def describe_device(self) -> dict[str, str]:
        """Return the device on which the arrays actually are: "kind" ("cpu" or "gpu") and "name"."""

    # --- optional: each has a default that fits most frameworks -----------------------------------------------------

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that train, by package: by default those that FRAMEWORKS names."""
        packages = import_module(type(self).__module__).FRAMEWORKS[self.framework]["packages"]
        return {package: version(package) for package in packages}

    def device_memory_mib(self) -> float | None:
        """Return the framework's peak GPU memory in MiB; None on the CPU or if the framework does not report it."""
        return None

    def compile(self, feed: EpochFeed) -> None:
        """Let the framework compile what training on `feed` needs: by default, train one step of each batch size.

        This may change the state: the caller saves `state` before and restores it after.
        """
        self.train_epoch(feed.one_of_each_size())

    def open_compilation_cache(self, folder: Path) -> Mapping[str, int] | None:
        """Take compiled programs from a folder, and leave new ones there. Called before `build`, if at all.

        An entry that can't be read must lead to a compilation.

        Returns counts that go on changing: programs that came from the cache ("hits") and programs that did not
        ("misses"); None if the framework has no such cache.
        """
        return None

    def thread_pools(self) -> list[dict]:
        """Return the framework's own thread pools as dicts of "library" and "threads", if it reports any."""
        return []

    def matrix_operation(self, operation: str, side: int, times: int) -> Callable[[], object] | None:
        """Return a function that computes an operation on two square float32 matrices and waits for the result.

        By default numpy computes it on the CPU. On a GPU the default is None: the record then holds no peak.

        operation: "matmul" (the matrix product) or "add" (value by value).
        side: number of rows of a matrix.
        times: how often a call of the function computes it. It waits once, at the end.
        """
        if self.describe_device()["kind"] != "cpu":
            return None
        return numpy_operation(np, operation, [random_matrix(side, seed) for seed in (1, 2)], times)

    # --- shared -----------------------------------------------------------------------------------------------------

    def check_gpus(self, device: str, gpus: Sequence[Any], library: str) -> None:
        """Raise DeviceError if the device is "gpu" and the library sees none."""
        if device == "gpu" and not gpus:
            raise DeviceError(
                f"{self.framework} sees no GPU: it needs a driver and the GPU build of {library} (docs/setup.md says "
                "which environment has it)"
            )

    def check_device(self, kind: str) -> dict[str, str]:
        """Return `describe_device`. Raises DeviceError if the arrays are not on a device of this kind."""
        actual = self.describe_device()
        if actual["kind"] != kind:
            raise DeviceError(f"{self.framework} was asked for the device {kind} but put its arrays on {actual}")
        return actual

    def check_gpu_memory(self) -> None:
        """Raise DeviceError if the framework uses no GPU memory, or does not report it. Call it after training."""
        used_mib = self.device_memory_mib()
        if used_mib is None:
            raise DeviceError(
                f"{self.framework} does not report how much GPU memory it uses, so nothing proves that it trains on "
                "the GPU; unset TF_GPU_ALLOCATOR and XLA_PYTHON_CLIENT_ALLOCATOR, which disable the report"
            )
        if used_mib == 0:
            raise DeviceError(f"{self.framework} was told to train on the GPU but uses no GPU memory")

    def check_precision(self, what: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise PrecisionError if an array has 16-bit numbers, such as float16 or bfloat16."""
        for name, array in arrays.items():
            if array.dtype.itemsize == 2:
                raise PrecisionError(
                    f"{self.framework} returns the {what} of {name} in {array.dtype}, but trainmark compares only "
                    "float32 and float64; make the adapter train in the dtype that is passed to `build`"
                )

    def restart_optimizer(self, built: dict[str, np.ndarray]) -> None:
        """Go on from the current weights with a new optimizer. built: the `state` before the first step."""
        weights = self.weights()
        self.set_state(built)
        self.set_weights(weights)

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether an exception means that the host's or the device's memory ran out."""
        texts = self.out_of_memory_texts.get(type(error).__name__, ())
        return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


class ObservedAdapter(Adapter):
    """An adapter that shows what the parity certificate and the audit compare.

    Those are layers' outputs, gradients, the optimizer's arrays, and dropout's masks.
    """

    @abstractmethod
    def build(self, *args: Any, **arguments: Any) -> None:
        """Take the arguments of `Adapter.build`, and one more.

        observed_batch: number of samples per step, for a training that calls `gradients` or `set_masks`; otherwise
            None, the default. If it is given, dropout uses the masks of `set_masks`, and is off before the first call.
        """

    @abstractmethod
    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        """Return the output of every layer for some samples of a split in arrays, by node, with "input" first.

        Each output is (samples, *shape), with the shapes and the order of the architecture. The state does not change.

        training: compute as in a training step: with batch statistics, the dropout masks that were set, and auxiliary
            heads; needs a network built with `observed_batch`. Otherwise compute as in evaluation, without these.

        Raises ShapeError if the output of a layer has another shape than in the architecture.
        """

    @abstractmethod
    def gradients(self) -> Weights:
        """Return the gradients of the last step's loss with respect to the trained arrays. Needs `observed_batch`."""

    @abstractmethod
    def slots(self) -> Weights:
        """Return a copy of the arrays that the optimizer keeps for each trained array.

        By "layer.role.slot", such as "dense1.kernel.velocity" (update_rules.SLOTS), in the layout of `weights`. Before
        the first update they are zeros.
        """

    @abstractmethod
    def set_slots(self, slots: Weights, updates: int) -> None:
        """Go on with the optimizer's arrays of any adapter, as after so many updates."""

    @abstractmethod
    def set_masks(self, masks: Weights) -> None:
        """Set the arrays by which the Dropout layers multiply in the next steps, by node: (observed_batch, *shape)."""


def random_matrix(side: int, seed: int) -> np.ndarray:
    """Return a square float32 matrix of random numbers between 0 and 1. Its rows are equal, which is quick to draw."""
    return np.tile(np.random.default_rng(seed).random(side, np.float32), (side, 1))


def numpy_operation(module: Any, operation: str, matrices: Sequence[Any], times: int) -> Callable[[], None]:
    """Return a function that computes an operation with numpy or CuPy into one array. It does not wait for a GPU."""
    compute, result = getattr(module, operation), module.empty_like(matrices[0])

    def work() -> None:
        for _ in range(times):
            compute(*matrices, out=result)

    return work


def check_shape(framework: str, node: str, shape: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ShapeError if a layer's output, without the batch axis, does not have the expected shape."""
    if tuple(shape) != tuple(expected):
        raise ShapeError(framework, node, f"gives the shape {tuple(shape)}", tuple(expected))


def check_array(framework: str, parameter: Parameter, shape: Sequence[int] | None) -> None:
    """Raise ShapeError if a layer's array does not have the shape of the architecture.

    shape: shape of the framework's array; None if it has none.
    """
    if shape is None or tuple(shape) != parameter.shape:
        what = f"has no {parameter.role}" if shape is None else f"has a {parameter.role} of the shape {tuple(shape)}"
        raise ShapeError(framework, parameter.layer, what, parameter.shape)
